//! Servers of tools that a task cannot do without: whether it fails for want of one, or waits.

use crate::error::{Error, Result};
use crate::tools::Toolbox;

/// Why the task cannot go on for want of a server of tools, as the reason of its failure.
///
/// # Errors
/// `Kind::Later` when what keeps the server away may be over by itself.
pub(super) fn missing(toolbox: &Toolbox) -> Result<Option<String>> {
    let fatal = || toolbox.troubles().into_iter().filter(|(_, trouble)| trouble.is_fatal);
    // Waiting would not mend the others.
    let Some((server, trouble)) = fatal().find(|(_, trouble)| !trouble.may_pass).or_else(|| fatal().next()) else {
        return Ok(None);
    };
    let reason = format!(
        "the MCP server `{server}`, which is required here, is not available: {}; whoever runs the agent can mend it or \
         set `required: false` in `mcp_servers`",
        trouble.why
    );
    if trouble.may_pass { Err(Error::later(reason)) } else { Ok(Some(reason)) }
}
