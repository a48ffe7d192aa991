# Versions of what we are checked against. Raise one after `make test-real` is good with it.
MCP_CONFORMANCE=@modelcontextprotocol/conformance@0.1.13
MCP_SERVER_EVERYTHING=@modelcontextprotocol/server-everything@2026.8.31
MCP_SERVER_FILESYSTEM=@modelcontextprotocol/server-filesystem@2026.8.31
MCP_SERVER_GIT=mcp-server-git==2026.10.19
MCP_SERVER_TIME=mcp-server-time==2026.10.19
OCTOKIT_OPENAPI=@octokit/openapi@23.0.2
PRISM=@stoplight/prism-cli@5.14.2
AJV=ajv@8.20.0
AJV_FORMATS=ajv-formats@2.1.1
OCTOKIT_FIXTURES=@octokit/fixtures@23.1.2
OGR=ogr==0.61.1
PYYAML=pyyaml==6.0.3
PYTHON_GITLAB=python-gitlab==8.6.0
OPENAI=openai==3.57.0
OLLAMA=ollama==0.6.3
LLMOCK=llmock==0.2.2
AIMOCK=@copilotkit/aimock@1.43.0
