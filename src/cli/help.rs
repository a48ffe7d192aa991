//! The texts that `--help` prints.

/// Help of the program.
pub const HELP: &str = "\
coding-agent works on issues and pull requests that carry a label, with an LLM and tools, and hands
back a pushed branch and a comment. Start it from a systemd timer or from cron; every run does what
there is to do and ends.

Usage: coding-agent [--mode producer|consumer] [OPTIONS]
       coding-agent status [--json] [OPTIONS]
       coding-agent show TASK [--full] [--json] [OPTIONS]
       coding-agent doctor [--json] [OPTIONS]
       coding-agent gc [--dry-run | --rebuild-db] [OPTIONS]
       coding-agent demo [DIR]

Commands:
  (none)   Look for labelled issues and pull requests, then work on all that wait.
  status   Show the tasks that wait, run, are put off, or ended last, and what they cost.
  show     Show what happened in one task: conversation, tool calls, ending, cost.
  doctor   See whether all is ready for work. Start here, before the first timer.
  gc       Remove finished tasks' files after cleanup_days. Runs by itself once a day.
  demo     Show the whole job, offline, on a small repository made in DIR (default: demo).

Options:
  --mode producer   Only look for tasks and queue them.
  --mode consumer   Only work on queued tasks.
  --continuous      Go on for ever instead of once (not in this version).
  --config FILE     Configuration; default: $CONFIG_FILE, else config.yaml if it is there.
  -v, --verbose     Show progress on stderr. The log file has it anyway.
  -h, --help        This text; `coding-agent status --help` for a command's own.
  -V, --version     The version.

Exit codes:
  0   worked, or nothing to do (also: another producer is at it, all consumer slots are taken)
  1   at least one task failed
  2   the command line was wrong
  75  a task is put off, come back later (also: asked to end by SIGTERM)
  78  configuration or host: something a person must mend
  70  a bug of this program
";

/// Help of `status`.
pub const STATUS_HELP: &str = "\
Shows where every task stands: waiting, running, put off (with the time), given up, unreadable,
paused, and those that ended last; below each what its model calls cost so far. Reads files only
and changes nothing. `coding-agent show UUID` shows one task. Items that carry the processing label
and have no task here are named by `coding-agent doctor`, which asks the forge.

Usage: coding-agent status [--json] [--config FILE]

Options:
  --json   One JSON object instead of text, with totals per day, user and repository.
";

/// Help of `doctor`.
pub const DOCTOR_HELP: &str = "\
Looks at everything the agent needs and says what it finds, a line for each thing, with what to do
where it is not good: configuration, directories and their file system, git, the sandbox, the forge
with token, repositories and labels, the model and whether it calls tools, each MCP server and its
tools, the user config API where it is on. Changes nothing, here or elsewhere; MCP servers are started
and ended again, files it tries locks with are gone at once. The model gets one tiny request, which costs
a few hundred tokens. A step waits ten seconds for a server, the model's answer two minutes.

Usage: coding-agent doctor [--json] [--config FILE]

Options:
  --json   One JSON object instead of text.

Exit codes:
  0   all is ready
  1   it works, but something could be better
  78  it cannot work as it is
";

/// Help of `show`.
pub const SHOW_HELP: &str = "\
Shows what happened in one task: which item it is and how it ended, every message, tool calls with
exit codes and durations, summaries and plans, how it ended in detail, and what it cost. Long texts
are shortened. Times are UTC. Reads files only and changes nothing; of a damaged directory it shows
what can be read and says what cannot.

Usage: coding-agent show TASK [--full] [--json] [--config FILE]

  TASK     The UUID of a task, the beginning of one, or the path of a context directory.

Options:
  --full   Nothing shortened.
  --json   One JSON object instead of text, with everything in it.

Colours are used on a terminal only, and not where NO_COLOR is set.
";

/// Help of `gc`.
pub const GC_HELP: &str = "\
Removes what nobody needs any more once it is older than context_storage.cleanup_days: contexts and
kept workspaces of finished tasks, and entries of tasks that were given up. What waits, runs or is
paused is never touched. Model calls older than 400 days leave the database, which is compacted. The
agent does this by itself at the end of a run, at most once a day.

Usage: coding-agent gc [--dry-run | --rebuild-db] [--config FILE]

Options:
  --dry-run      Only say what would be removed.
  --rebuild-db   Also make the rows of tasks.db again from the context directories; a damaged
                 database is kept as tasks.db.broken.
";

/// Help of `demo`.
pub const DEMO_HELP: &str = "\
Makes a small git repository and an issue file below DIR, runs producer and consumer with a
recorded model, and shows the issue, the steps, the resulting diff on the pushed branch, the
comment, and where everything lies. Needs git and sh, no network and no account.

Usage: coding-agent demo [DIR]
";
