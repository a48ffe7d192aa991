//! Git behind a fake: bare repositories named by id, read as files, written through git, and
//! served by `git http-backend` called as the CGI program it is.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::wire::{Reply, Request};

pub fn dir(root: &Path, id: u64) -> PathBuf {
    root.join(format!("{id}.git"))
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.args(args).current_dir(dir).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("HOME", "/nonexistent");
    command.envs([("GIT_AUTHOR_NAME", "alice"), ("GIT_AUTHOR_EMAIL", "alice@example.org")]);
    command.envs([("GIT_COMMITTER_NAME", "alice"), ("GIT_COMMITTER_EMAIL", "alice@example.org")]);
    command
}

/// Runs git with this on its standard input; both streams of a failure are the error.
fn feed(mut command: Command, input: &[u8]) -> Result<Vec<u8>, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    // A program that answers before it has read everything closes the pipe; that is no failure.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    drop(writer.join());
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Runs git in the repository; panics when it fails, for the test's own side.
#[track_caller]
pub fn run(root: &Path, id: u64, args: &[&str]) -> String {
    let out = feed(command(&dir(root, id), args), b"").unwrap_or_else(|text| panic!("git {args:?}: {text}"));
    String::from_utf8(out).expect("git speaks UTF-8 here").trim_end().to_owned()
}

pub fn init(root: &Path, id: u64, branch: &str) {
    let path = dir(root, id);
    let text = path.to_str().expect("a path in UTF-8");
    feed(command(root, &["init", "--quiet", "--bare", &format!("--initial-branch={branch}"), text]), b"").unwrap();
    let config =
        "[http]\n\treceivepack = true\n[receive]\n\tdenyDeleteCurrent = refuse\n[uploadpack]\n\tallowFilter = true\n";
    let old = std::fs::read_to_string(path.join("config")).unwrap();
    std::fs::write(path.join("config"), old + config).unwrap();
}

/// A bare copy: a fork.
pub fn fork(root: &Path, from: u64, to: u64, branch: &str) {
    init(root, to, branch);
    let source = dir(root, from);
    run(root, to, &["fetch", "--quiet", source.to_str().expect("UTF-8"), "+refs/heads/*:refs/heads/*"]);
}

/// Adds one commit to a branch, made from `base` where it is new; returns its id.
pub fn commit(
    root: &Path,
    id: u64,
    branch: &str,
    base: &str,
    files: &[(&str, &str)],
    message: &str,
    at: i64,
) -> String {
    let from = branch_sha(root, id, branch).or_else(|| branch_sha(root, id, base));
    let mut script = format!("commit refs/heads/{branch}\ncommitter alice <alice@example.org> {at} +0000\n");
    script.push_str(&format!("data {}\n{message}\n", message.len()));
    if let Some(from) = from {
        script.push_str(&format!("from {from}\n"));
    }
    for (path, content) in files {
        script.push_str(&format!("M 100644 inline {path}\ndata {}\n{content}\n", content.len()));
    }
    feed(command(&dir(root, id), &["fast-import", "--quiet", "--force"]), script.as_bytes()).unwrap();
    branch_sha(root, id, branch).expect("just made")
}

/// What a branch points to, read as files: packed ones too.
pub fn branch_sha(root: &Path, id: u64, branch: &str) -> Option<String> {
    let odd = branch.starts_with('/') || branch.split('/').any(|part| part.is_empty() || part.starts_with('.'));
    if odd {
        return None;
    }
    let dir = dir(root, id);
    if let Ok(text) = std::fs::read_to_string(dir.join("refs/heads").join(branch)) {
        return Some(text.trim().to_owned());
    }
    packed(&dir).into_iter().find(|(name, _)| name == branch).map(|(_, sha)| sha)
}

fn packed(dir: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(dir.join("packed-refs")).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(sha, name)| Some((name.strip_prefix("refs/heads/")?.to_owned(), sha.to_owned()))).collect()
}

/// All branches with what they point to, by name.
pub fn branches(root: &Path, id: u64) -> Vec<(String, String)> {
    let args = ["for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads"];
    let text = run(root, id, &args);
    text.lines().filter_map(|line| line.split_once(' ')).map(|(n, s)| (n.to_owned(), s.to_owned())).collect()
}

pub fn has_commit(root: &Path, id: u64, sha: &str) -> bool {
    sha.len() == 40 && feed(command(&dir(root, id), &["cat-file", "-e", &format!("{sha}^{{commit}}")]), b"").is_ok()
}

pub fn update_ref(root: &Path, id: u64, branch: &str, sha: &str) -> Result<(), String> {
    feed(command(&dir(root, id), &["update-ref", &format!("refs/heads/{branch}"), sha]), b"").map(drop)
}

/// How many commits `head` has that `base` has not, looking into all these repositories.
pub fn ahead(root: &Path, ids: &[u64], base: &str, head: &str) -> u64 {
    let Some(first) = ids.first() else { return 0 };
    let mut command = command(&dir(root, *first), &["rev-list", "--count", &format!("{base}..{head}")]);
    let others: Vec<String> = ids.iter().map(|id| dir(root, *id).join("objects").display().to_string()).collect();
    command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", others.join(":"));
    let out = feed(command, b"").unwrap_or_default();
    String::from_utf8_lossy(&out).trim().parse().unwrap_or(0)
}

/// A request to git's address that may be answered by the backend.
#[derive(Debug)]
pub struct Pass {
    pub id: u64,
    pub tail: String,
    pub who: String,
}

pub fn unbase64(code: &str) -> Option<String> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::new());
    for c in code.trim_end_matches('=').bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    String::from_utf8(bytes).ok()
}

/// Lets the backend answer.
pub fn serve(root: &Path, pass: &Pass, request: &Request) -> Reply {
    let mut backend = command(root, &["http-backend"]);
    backend.env("GIT_PROJECT_ROOT", root).env("GIT_HTTP_EXPORT_ALL", "1");
    backend.env("PATH_INFO", format!("/{}.git/{}", pass.id, pass.tail));
    backend.env("REQUEST_METHOD", &request.method).env("QUERY_STRING", &request.query);
    backend.env("CONTENT_TYPE", request.header("content-type").unwrap_or_default());
    backend.env("CONTENT_LENGTH", request.body.len().to_string());
    backend.env("REMOTE_ADDR", "127.0.0.1").env("REMOTE_USER", &pass.who);
    for (variable, header) in [("GIT_PROTOCOL", "git-protocol"), ("HTTP_CONTENT_ENCODING", "content-encoding")] {
        if let Some(value) = request.header(header) {
            backend.env(variable, value);
        }
    }
    match feed(backend, &request.body) {
        Ok(output) => parse(&output),
        Err(text) => Reply::new(500, "text/plain", text),
    }
}

fn parse(output: &[u8]) -> Reply {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(output.len());
    let mut reply = Reply::empty(200);
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("status") => {
                reply.status = value.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(500);
            }
            Some((name, value)) => reply = reply.with(&name.to_ascii_lowercase(), value),
            None => {}
        }
    }
    reply.body = output.get(end + 4..).unwrap_or_default().to_vec();
    reply
}
