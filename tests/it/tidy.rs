//! Rules of the code base that a compiler does not check.

use std::path::{Path, PathBuf};

/// Layers, lowest first; a module uses only modules of lower layers. Kept in step with ARCHITECTURE.md.
const LAYERS: &[&[&str]] = &[
    &["error"],
    &["text"],
    &["sys"],
    &["config", "logging", "prompts"],
    &["chat", "task"],
    &["ports"],
    &["budget", "context", "queue"],
    &["forge", "llm", "tools", "workspace"],
    &["control"],
    &["handler"],
    &["cli"],
    &["commands"],
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(dir: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![root().join(dir)];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(root()).unwrap().to_path_buf(), text));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty());
    found
}

/// The module a file of `src` belongs to: its first path element.
fn module(path: &Path) -> String {
    let first = path.components().nth(1).unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

fn layer(module: &str) -> usize {
    LAYERS.iter().position(|layer| layer.contains(&module)).unwrap_or_else(|| panic!("`{module}` has no layer"))
}

/// Modules of the crate named in a line, by `crate::x` or `crate::{x, y}`.
fn used(line: &str) -> Vec<String> {
    let mut names = Vec::new();
    for part in line.split("crate::").skip(1) {
        let list = part.strip_prefix('{').map_or(part, |inner| inner.split('}').next().unwrap());
        let many = part.starts_with('{');
        for name in list.split(',').take(if many { usize::MAX } else { 1 }) {
            let name: String = name.trim().chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            names.extend((!name.is_empty()).then_some(name));
        }
    }
    names
}

#[test]
fn layers_point_downwards_only() {
    let mut seen = 0;
    for (path, text) in sources("src") {
        let own = module(&path);
        if own == "lib" || own == "main" {
            continue;
        }
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for used in code.flat_map(used).filter(|used| *used != own) {
            seen += 1;
            assert!(layer(&used) < layer(&own), "{}: `{own}` uses `{used}`, which is not below it", path.display());
        }
    }
    assert!(seen > 100, "the use lines were found: {seen}");
}

#[test]
fn adapters_do_not_know_each_other() {
    for (path, text) in sources("src/forge").into_iter().chain(sources("src/llm")) {
        for word in ["crate::forge::", "crate::llm::", "crate::tools::"] {
            assert!(!text.contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn architecture_names_every_module_and_layer() {
    let text = std::fs::read_to_string(root().join("src/ARCHITECTURE.md")).unwrap();
    for module in LAYERS.iter().flat_map(|layer| layer.iter()) {
        assert!(text.contains(&format!("`{module}")), "ARCHITECTURE.md does not name `{module}`");
    }
    for (path, _) in sources("src") {
        let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if !["mod", "lib"].contains(&name) {
            assert!(text.contains(name), "ARCHITECTURE.md does not name {}", path.display());
        }
    }
}

#[test]
fn only_sys_touches_processes_signals_clocks_and_the_names_of_files() {
    let forbidden = [
        "std::process::",
        "SystemTime",
        "fs::rename",
        "fs::remove",
        "fs::write(",
        "File::create",
        "signal_hook",
        "Utc::now",
    ];
    for (path, text) in sources("src") {
        let own = module(&path);
        if own == "sys" || own == "main" {
            continue;
        }
        for word in forbidden {
            let line = text.lines().position(|line| line.contains(word) && !line.trim_start().starts_with("//"));
            let allowed =
                word == "std::process::" && text.matches(word).count() == text.matches("std::process::id()").count();
            assert!(line.is_none() || allowed, "{}:{} uses {word}", path.display(), line.unwrap_or(0) + 1);
        }
    }
}

#[test]
fn every_file_says_what_it_is_and_stays_readable() {
    for (path, text) in sources("src").into_iter().chain(sources("tests")).chain(sources("benches")) {
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("//!") || first.starts_with("#![doc"), "{} begins with what it is", path.display());
        let lines = text.lines().count();
        let most = if path.starts_with("src") { 420 } else { 900 };
        assert!(lines <= most, "{} has {lines} lines: split it", path.display());
    }
}

#[test]
fn nothing_that_can_panic_on_foreign_data() {
    for (path, text) in sources("src") {
        for word in
            [".unwrap()", ".expect(", "panic!(", "unreachable!(", "todo!(", "unimplemented!(", "dbg!(", "unsafe "]
        {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
}

#[test]
fn no_test_sleeps_or_is_ignored() {
    for (path, text) in sources("tests") {
        if path.ends_with("tidy.rs") {
            continue;
        }
        for word in ["thread::sleep", "#[ignore", "should_panic"] {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
}

#[test]
fn the_top_level_holds_only_what_belongs_there() {
    let allowed = [
        "Cargo.toml",
        "Cargo.lock",
        "src",
        "config.yaml",
        "prompts",
        "tests",
        "Makefile",
        "README.md",
        "benches",
        "systemd",
        "LICENSE",
    ];
    let output = std::process::Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let top = line.split('/').next().unwrap();
        assert!(top.starts_with('.') || allowed.contains(&top), "{line} does not belong at the top level");
    }
}
