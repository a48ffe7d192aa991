//! Which new files do not belong into a commit: secrets by name, dependencies and caches, core
//! dumps, giants (case C54). Pure: names and sizes in, a reason out.

/// Larger new files are left out.
pub const LARGEST_FILE_BYTES: u64 = 5 << 20;
/// A directory with more new files was not written by the model.
pub const MOST_FILES_OF_DIRECTORY: usize = 1000;

/// The reason against a secret by name.
pub const LOOKS_SECRET: &str = "looks like a secret";

const DIRECTORIES: [&str; 7] =
    ["node_modules", "__pycache__", ".venv", ".tox", ".pytest_cache", ".mypy_cache", ".gradle"];
const SECRET_NAMES: [&str; 9] =
    [".env", ".netrc", ".npmrc", ".pypirc", ".git-credentials", "credentials.json", "id_rsa", "id_ed25519", "id_ecdsa"];
const SECRET_ENDINGS: [&str; 6] = [".pem", ".key", ".p12", ".pfx", ".keystore", ".jks"];
const TEMPLATE_ENDINGS: [&str; 4] = [".example", ".sample", ".template", ".dist"];

/// Why a new file of this path and size does not belong into a commit.
pub fn reason(path: &str, size_bytes: u64) -> Option<&'static str> {
    let lower = path.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    let directories = lower.split('/').rev().skip(1);
    if directories.into_iter().any(|directory| DIRECTORIES.contains(&directory)) {
        return Some("installed or generated files");
    }
    let is_template = TEMPLATE_ENDINGS.iter().any(|ending| name.ends_with(ending));
    let is_secret = SECRET_NAMES.contains(&name)
        || name.starts_with(".env.")
        || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending));
    if is_secret && !is_template {
        return Some(LOOKS_SECRET);
    }
    let is_core_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if name == "core" && size_bytes > 100_000 || name.strip_prefix("core.").is_some_and(is_core_number) {
        return Some("a core dump");
    }
    (size_bytes > LARGEST_FILE_BYTES).then_some("larger than 5 MiB")
}

/// The top directory of a path, if it has one.
pub fn top_directory(path: &str) -> Option<&str> {
    path.split_once('/').map(|(top, _)| top)
}
