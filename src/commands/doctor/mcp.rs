//! The MCP servers: whether each starts, and what its tools cost of the model's window.

use crate::commands::setup::Setup;
use crate::commands::task_tools::TaskTools;
use crate::ports::{Finding, ToolServer as _};
use crate::task::TaskId;
use crate::tools::mcp;

/// Starts each for a moment. Their work tree is the directory for temporary files: there is no task.
pub fn look(setup: &Setup, window_tokens: Option<u64>, tell: &mut dyn FnMut(Finding)) {
    let window_tokens = window_tokens.unwrap_or(u64::MAX);
    let tools = TaskTools::new(&setup.config, &setup.redactor, None, window_tokens);
    let tree = std::env::temp_dir();
    let tree = tree.canonicalize().unwrap_or(tree);
    let mut sizes = Vec::new();
    for (entry, started) in tools.started(TaskId::new_v4(), &tree) {
        let called = format!("MCP server {}", started.name());
        let Some(trouble) = started.trouble() else {
            let (count, tokens) = (started.tools().len(), mcp::tokens(&started.tools()));
            sizes.push((started.name().to_owned(), tokens));
            tell(Finding::good(
                called,
                format!("starts and offers {count} tools, about {tokens} tokens of the window"),
            ));
            continue;
        };
        let remedy = match &entry.url {
            Some(url) => format!("see whether `{url}` is a streamable HTTP server and takes the headers of its entry"),
            None => format!("try `{}` by hand; `env` of its entry is all it gets", entry.command.join(" ")),
        };
        // Without one that is not required the task goes on.
        tell(if entry.required {
            Finding::bad(called, trouble.explained, remedy)
        } else {
            Finding::warning(called, trouble.explained, remedy)
        });
    }
    if let Some(warning) = mcp::budget_warning(&sizes, window_tokens) {
        tell(Finding::warning("tools", warning, "name the tools that are needed in `tools` of each entry"));
    }
}
