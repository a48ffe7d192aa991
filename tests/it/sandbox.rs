//! Commands in a real bubblewrap: what they see, what they can change, what ends them. Where
//! bubblewrap does not work these tests are left out with a line on stderr, unless
//! CODING_AGENT_TESTS_NEED_SANDBOX is set.

use crate::support::shell::Shell;

#[test]
fn a_command_runs_in_the_tree_under_its_own_path() {
    let Some(mut shell) = Shell::shut_in() else { return };
    let tree = shell.tree().canonicalize().unwrap();
    assert_eq!(shell.output("pwd; echo x > made; id -u; id -un"), format!("{}\n1000\nagent", tree.display()));
    assert_eq!(std::fs::read_to_string(tree.join("made")).unwrap(), "x\n");
    assert_eq!(shell.run("echo out; echo err >&2; exit 7")["exit_code"], 7);
}
