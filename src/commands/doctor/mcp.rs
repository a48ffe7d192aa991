//! The MCP servers: whether each starts, and what its tools cost of the model's window.

use std::path::Path;

use crate::commands::setup::Setup;
use crate::commands::task_tools::TaskTools;
use crate::config::{self, Config, Lookup};
use crate::handler::ToolSource as _;
use crate::ports::{Finding, ToolServer as _};
use crate::task::TaskId;
use crate::text::counted;
use crate::tools::mcp::{self, McpServer};

/// What to do about names that the server does not have.
const TOOLS: &str = "name its tools as it does in `tools` of its entry, or leave that out for all of them";

/// Those that no task of this installation gets.
pub fn left_out(path: Option<&Path>, env: Lookup<'_>, config: &Config) -> Vec<Finding> {
    // The configuration was read just before.
    let names = Config::left_out_mcp_servers(path, env).unwrap_or_default();
    let why = format!("it is for tasks from there, and task_source is {}", config.task_source.name());
    names.iter().map(|name| Finding::skipped(format!("MCP server {name}"), &why)).collect()
}

/// Starts each for a moment. Their work tree is the directory for temporary files: there is no task.
pub fn look(setup: &Setup, window_tokens: Option<u64>, tell: &mut dyn FnMut(Finding)) {
    let window_tokens = window_tokens.unwrap_or(u64::MAX);
    let tools = TaskTools::new(&setup.config, &setup.redactor, None, window_tokens);
    let tree = std::env::temp_dir();
    let tree = tree.canonicalize().unwrap_or(tree);
    let mut sizes = Vec::new();
    let uuid = TaskId::new_v4();
    for (entry, started) in tools.started(uuid, &tree) {
        let finding = finding(entry, &started);
        sizes.push((started.name().to_owned(), mcp::tokens(&started.tools())));
        tell(finding);
    }
    // What left the group of its server.
    tools.end_leftovers(uuid);
    if let Some(warning) = mcp::budget_warning(&sizes, window_tokens) {
        tell(Finding::warning("tools", warning, "name the tools that are needed in `tools` of each entry"));
    }
}

fn finding(entry: &config::McpServer, started: &McpServer) -> Finding {
    let called = format!("MCP server {}", started.name());
    // Without one that is not required the task goes on.
    let useless = |why: String, remedy: String| {
        if entry.required { Finding::bad(&called, why, remedy) } else { Finding::warning(&called, why, remedy) }
    };
    if let Some(trouble) = started.trouble() {
        return useless(
            trouble.explained,
            match &entry.url {
                Some(url) => {
                    format!("see whether `{url}` is a streamable HTTP server and takes the headers of its entry")
                }
                None => format!("try `{}` by hand; `env` of its entry is all it gets", entry.command.join(" ")),
            },
        );
    }
    let tools = started.tools();
    match (started.warning(), tools.len()) {
        (Some(warning), 0) => useless(warning.to_owned(), TOOLS.to_owned()),
        (Some(warning), _) => Finding::warning(called, warning, TOOLS),
        (None, 0) => useless("starts, but offers no tools".to_owned(), "take its entry out, or mend it".to_owned()),
        (None, count) => Finding::good(
            called,
            format!(
                "starts and offers {}, about {} tokens of the window",
                counted(count as u64, "tool"),
                mcp::tokens(&tools)
            ),
        ),
    }
}
