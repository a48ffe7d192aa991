//! `doctor` and what MCP servers offer: names that the operator chose wrongly, servers without tools, and
//! those of another forge.

use crate::doctor::{MCP_SERVER, Report};
use crate::support::{Cassette, World};

fn world() -> World {
    let world = World::with_task(&Cassette::new());
    world.write("docs.sh", MCP_SERVER);
    world.write(
        "empty.sh",
        &MCP_SERVER.replace(r#"{"name":"look","description":"Looks.","inputSchema":{"type":"object"}}"#, ""),
    );
    world
}

#[test]
fn tools_that_a_server_does_not_have_are_told_as_a_task_does() {
    let world = world();
    let config = world.read("config.yaml");
    for (entry, code, state, finding) in [
        ("command: [sh, docs.sh], tools: [look]", 0, "good", "starts and offers 1 tool, about "),
        (
            "command: [sh, docs.sh], tools: [look, lok]",
            1,
            "warning",
            "does not offer `lok`, named in its `tools`; it has `look`",
        ),
        ("command: [sh, docs.sh], tools: [lok]", 1, "warning", "does not offer `lok`"),
        ("command: [sh, docs.sh], tools: [look, lok], required: true", 1, "warning", "does not offer `lok`"),
        ("command: [sh, docs.sh], tools: [lok], required: true", 78, "bad", "does not offer `lok`"),
        ("command: [sh, empty.sh]", 1, "warning", "starts, but offers no tools"),
        ("command: [sh, empty.sh], required: true", 78, "bad", "starts, but offers no tools"),
        ("command: [sh, empty.sh], tools: [look]", 1, "warning", "it has none"),
    ] {
        world.write("config.yaml", &format!("{config}mcp_servers: [{{mcp_server_name: docs, {entry}}}]\n"));
        let remedy = if finding.contains("does not offer") { "in `tools` of its entry" } else { "" };
        Report::of(&world, code).says("MCP server docs", state, finding, remedy);
    }
}

#[test]
fn a_server_of_another_forge_is_not_looked_at() {
    let world = world();
    world.configure("mcp_servers: [{mcp_server_name: gitlab, command: [sh, absent.sh]}]\n");
    Report::of(&world, 0).says("MCP server gitlab", "skipped", "task_source is local", "");
}
