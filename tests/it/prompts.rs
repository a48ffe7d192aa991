//! The texts in `prompts/`: overriding them, strict placeholders, and that none lies there unused.

use std::collections::BTreeSet;
use std::path::Path;

use coding_agent::error::Kind;
use coding_agent::prompts::{Prompt, Prompts};

use crate::support::{Cassette, World};

fn source_dir() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/prompts"))
}

/// A directory of replacements.
fn overriding(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

#[track_caller]
fn refused(files: &[(&str, &str)]) -> String {
    let error = Prompts::load(Some(overriding(files).path())).unwrap_err();
    assert_eq!(error.kind(), Kind::Host);
    error.sentence().to_owned()
}

#[test]
fn a_file_in_the_directory_replaces_the_embedded_text() {
    let dir = overriding(&[
        ("reminder.md", "\n Please call a tool. \n"),
        ("system.md", "On {{ branch }}: {{commands_note}}"),
    ]);
    let prompts = Prompts::load(Some(dir.path())).unwrap();
    assert_eq!(prompts.render(Prompt::Reminder, &[]), "Please call a tool.");
    assert_eq!(prompts.render(Prompt::System, &[("branch", "b"), ("commands_note", "none")]), "On b: none");
    let embedded = Prompts::load(None).unwrap();
    assert_eq!(prompts.render(Prompt::CutOff, &[]), embedded.render(Prompt::CutOff, &[]));
    assert!(Prompts::load(Some(overriding(&[]).path())).is_ok());
}

#[test]
fn a_copy_of_the_embedded_files_is_a_good_directory() {
    let prompts = Prompts::load(Some(source_dir())).unwrap();
    let embedded = Prompts::load(None).unwrap();
    assert_eq!(prompts.render(Prompt::System, &[]), embedded.render(Prompt::System, &[]));
}

#[test]
fn what_is_refused() {
    let told = refused(&[("reminder.md", "Go on, {{user}}.")]);
    assert!(told.ends_with("reminder.md`: it has no placeholder `user`; allowed: none"), "{told}");
    let told = refused(&[("system.md", "{{branch}} {{Branch}} {{commands_note}}")]);
    assert!(
        told.ends_with("it has no placeholder `Branch`; allowed: commands_note, branch, change_note, fence"),
        "{told}"
    );
    assert!(refused(&[("reminder.md", "Go {{on")]).ends_with("a `{{` has no `}}`"));
    let told = refused(&[("remind.md", "Go on.")]);
    assert!(told.contains("remind.md"), "a file that replaces nothing: {told}");
    let told = refused(&[("facts.yaml", "unchanged: nothing\n")]);
    assert!(told.starts_with("cannot use facts.yaml: `") && told.ends_with("` is missing"), "{told}");
    assert!(refused(&[("facts.yaml", "- a\n- b\n")]).contains("one text per name"));
    let dir = overriding(&[]);
    std::fs::write(dir.path().join("task.md"), b"\xff\xfe").unwrap();
    assert!(Prompts::load(Some(dir.path())).unwrap_err().sentence().ends_with("it is not UTF-8"));
    let absent = dir.path().join("absent");
    let error = Prompts::load(Some(&absent)).unwrap_err();
    assert_eq!(error.kind(), Kind::Host);
    assert!(error.sentence().ends_with("absent`: it is no directory"), "{error}");
}

#[test]
fn a_text_without_the_place_for_what_it_must_say_is_refused() {
    // The model would never see its task.
    let told = refused(&[("task.md", "Do what has to be done.")]);
    assert!(told.ends_with("task.md`: it must have the placeholder `task_json`"), "{told}");
}

#[test]
fn values_that_look_like_placeholders_stay_as_they_are() {
    let prompts = Prompts::load(None).unwrap();
    let text = prompts.render(Prompt::PullRequestBody, &[("words", "{{item}} {{words}} {{"), ("item", "#7")]);
    assert!(text.contains("{{item}} {{words}} {{"), "{text}");
    assert!(text.contains("#7"), "{text}");
    assert_eq!(prompts.fact("change", &[("what", "x"), ("url", "{{url}} }} {{sha}}")]), "The x is {{url}} }} {{sha}}");
}

#[test]
fn every_file_is_used_and_every_text_has_a_file() {
    // A directory with all of them is accepted only if each is known…
    let names: BTreeSet<String> = std::fs::read_dir(source_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(Prompts::load(Some(source_dir())).is_ok());
    // …and each that is known lies there: one stranger makes the program list them.
    let dir = overriding(&[("stranger.md", "")]);
    let told = format!("{:#}", Prompts::load(Some(dir.path())).unwrap_err());
    let known: BTreeSet<String> = names.iter().filter(|name| told.contains(name.as_str())).cloned().collect();
    assert_eq!(known, names, "{told}");
    assert_eq!(told.matches(".md").count() + told.matches(".yaml").count(), names.len() + 1, "{told}");
    // Every text and fact is used by the program.
    let mut source = String::new();
    let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if !path.ends_with("src/prompts.rs") {
            source += &std::fs::read_to_string(path).unwrap();
        }
    }
    let camel = |name: &str| -> String {
        let parts = name.split('_').map(|part| part[..1].to_uppercase() + &part[1..]);
        parts.collect()
    };
    for name in names.iter().filter_map(|name| name.strip_suffix(".md")) {
        assert!(source.contains(&format!("Prompt::{}", camel(name))), "{name}.md is used nowhere");
    }
    let facts = std::fs::read_to_string(source_dir().join("facts.yaml")).unwrap();
    for name in facts.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':')) {
        assert!(source.contains(&format!("\"{}\"", name.0)), "the fact {} is used nowhere", name.0);
    }
}

#[test]
fn no_placeholder_is_left_over_in_what_people_and_the_model_read() {
    let world = World::with_task(&Cassette::new().creates("a.txt", "a\n").runs("true").finishes("x"));
    world.run(&[]).expect(0);
    let archive = std::fs::read_to_string(world.context("completed").join("messages.jsonl")).unwrap();
    assert!(!archive.contains("{{") && !world.comments("fix").contains("{{"));
}

#[test]
fn a_bad_directory_ends_the_run_before_any_task_is_touched() {
    let world = World::with_task(&Cassette::new().finishes("x"));
    world.configure("prompts_dir: texts");
    let ended = world.run(&[]).expect(78);
    assert!(ended.stderr.contains("cannot use `texts`: it is no directory"), "{}", ended.stderr);
    assert_eq!(world.labels("fix"), ["coding agent"]);
    assert_eq!(world.entries(), Vec::<String>::new());
}
