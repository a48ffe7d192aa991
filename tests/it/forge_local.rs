//! The local forge: the conformance suite, and what only it has: issue files that stay a person's,
//! byte for byte, and files that are no issue files at all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use coding_agent::error::Kind;
use coding_agent::forge::Local;
use coding_agent::ports::{Forge, ItemState};
use coding_agent::sys::clock;
use coding_agent::task::{Labels, TaskKey};
use tempfile::TempDir;

use crate::forge_conformance::{Fixture, ODD_LABELS};

const BOT: &str = "coding-agent[bot]";

struct Desk {
    home: TempDir,
    forge: Local,
    items: u32,
}

fn forge_in(home: &Path) -> Local {
    Local::new(home.join("tasks"), BOT.to_owned(), Labels::default())
}

fn key(name: &str) -> TaskKey {
    TaskKey::local(name).unwrap()
}

impl Desk {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("tasks")).unwrap();
        fs::create_dir(home.path().join("widgets")).unwrap();
        let forge = forge_in(home.path());
        Self { home, forge, items: 0 }
    }

    fn with(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let desk = Self::new();
        desk.write(name, bytes);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join("tasks").join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.path(name)).unwrap()).unwrap()
    }

    fn labels_of(&self, name: &str) -> Vec<String> {
        self.forge.item(&key(name)).unwrap().unwrap().labels
    }
}

impl Fixture for Desk {
    fn forge(&self) -> &dyn Forge {
        &self.forge
    }

    fn another(&self) -> Box<dyn Forge + Send> {
        Box::new(forge_in(self.home.path()))
    }

    fn labels(&self) -> Labels {
        Labels::default()
    }

    fn add_item(&mut self, title: &str, body: &str, labels: &[&str], author: &str) -> TaskKey {
        self.items += 1;
        fs::create_dir_all(self.home.path().join("widgets/.git")).unwrap();
        let name = format!("item-{}", self.items);
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let front = format!(
            "title: {}\nlabels: {}\nauthor: {author}\nassignees: []\nstate: open\nrepository: ../widgets\n",
            quoted(title),
            serde_json::to_string(labels).unwrap(),
        );
        self.write(&format!("{name}.md"), format!("---\n{front}---\n{body}\n"));
        key(&name)
    }

    fn person_comments(&self, key: &TaskKey, author: &str, body: &str) {
        let name = format!("{}.comments.md", key.identifier());
        let before = fs::read_to_string(self.path(&name)).unwrap_or_default();
        let id = format!("hand-{}", before.len());
        self.write(&name, format!("{before}\n## {author} · {} · {id}\n{body}\n", clock::now_rfc3339()));
    }

    fn close(&self, key: &TaskKey) {
        let name = format!("{}.md", key.identifier());
        self.write(&name, self.read(&name).replacen("\nstate: open\n", "\nstate: closed\n", 1));
    }

    fn set_assignees(&self, key: &TaskKey, assignees: &[&str]) {
        let name = format!("{}.md", key.identifier());
        let lines = self
            .read(&name)
            .split('\n')
            .map(|line| match line.strip_prefix("assignees: ") {
                Some(_) => format!("assignees: [{}]", assignees.join(", ")),
                None => line.to_owned(),
            })
            .collect::<Vec<_>>();
        self.write(&name, lines.join("\n"));
    }

    fn missing_key(&self) -> TaskKey {
        key("nothing-here")
    }

    fn raw_snapshot(&self) -> Vec<(String, Vec<u8>)> {
        let mut all: Vec<(String, Vec<u8>)> = fs::read_dir(self.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| !path.ends_with(".lock"))
            .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
            .collect();
        all.sort();
        all
    }
}

mod conformance {
    crate::forge_conformance::forge_conformance!(super::Desk::new());
}

enum Change {
    Add(&'static str),
    Remove(&'static str),
}
use Change::{Add, Remove};

/// Front matter before, the change, front matter after; the rest of the file is added around it.
const REWRITES: &[(&str, Change, &str)] = &[
    // Flow lists.
    ("labels: [a]\n", Add("b"), "labels: [a, b]\n"),
    ("labels: []\n", Add("b"), "labels: [b]\n"),
    ("labels: [ ]  # none\n", Add("b"), "labels: [b]  # none\n"),
    ("labels: ['a',\"c\"]   # mine, [x]\n", Add("no"), "labels: ['a',\"c\", \"no\"]   # mine, [x]\n"),
    ("labels: [ a, b, ]\n", Add("c"), "labels: [ a, b, c, ]\n"),
    ("labels: [a, 'b', c]\n", Remove("b"), "labels: [a, c]\n"),
    ("labels: ['a' , b]\n", Remove("A"), "labels: [b]\n"),
    ("labels: [a,b,c] #x\n", Remove("c"), "labels: [a,b] #x\n"),
    ("labels: [ a ]\n", Remove("a"), "labels: []\n"),
    ("labels: [a, A, b, \"a\"]\n", Remove("a"), "labels: [b]\n"),
    ("labels: [\"x, y\", 'it''s', \"q\\\"]\", z]\n", Remove("it's"), "labels: [\"x, y\", \"q\\\"]\", z]\n"),
    ("labels: [\"x, y\", \"q\\\"]\"]\n", Remove("q\"]"), "labels: [\"x, y\"]\n"),
    ("labels: [1.10, no]\n", Remove("no"), "labels: [1.10]\n"),
    ("labels: [\n  a,  # first\n  # about b\n  b\n]\n", Remove("a"), "labels: [\n  # about b\n  b\n]\n"),
    ("labels: [\n  a,  # first\n  b   # second\n]\n", Remove("b"), "labels: [\n  a,  # first\n]\n"),
    ("labels: [\n  a,\n  b   # second\n]\n", Add("c"), "labels: [\n  a,\n  b, c   # second\n]\n"),
    ("labels:\n  [a, b]\n", Add("c"), "labels:\n  [a, b, c]\n"),
    ("labels: [a,\n  b]\n", Remove("a"), "labels: [\n  b]\n"),
    // Block lists.
    ("labels:\n  - a\n  - b # two\nstate: open\n", Add("c"), "labels:\n  - a\n  - b # two\n  - c\nstate: open\n"),
    ("labels:  # mine\n- a\n- 'b'\n", Remove("a"), "labels:  # mine\n- 'b'\n"),
    ("labels:\n- a\n\n# that was it\nstate: open\n", Add("C#"), "labels:\n- a\n- C#\n\n# that was it\nstate: open\n"),
    ("labels:\n  # one\n  - a\n  # two\n  - \"b\"\n", Remove("B"), "labels:\n  # one\n  - a\n  # two\n"),
    ("labels:\n  - a\n", Remove("a"), "labels:\n"),
    ("labels:\n  -   a\n  - two\n    words\n  - c\n", Remove("two words"), "labels:\n  -   a\n  - c\n"),
    // One text, nothing, no line at all.
    ("labels: coding agent  # go\n", Add("x"), "labels: [coding agent, x]  # go\n"),
    ("labels: 'a'\n", Add("x"), "labels: ['a', x]\n"),
    ("labels: a, b\n", Add("x"), "labels: [\"a, b\", x]\n"),
    ("labels: 1.10\n", Add("x"), "labels: [1.10, x]\n"),
    ("labels: a\n", Remove("a"), "labels: []\n"),
    ("labels:\n", Add("x"), "labels: [x]\n"),
    ("labels:   # later\ntitle: t\n", Add("x"), "labels: [x]   # later\ntitle: t\n"),
    ("labels: ~\n", Add("x"), "labels: [x]\n"),
    ("labels: null # n\n", Add("x"), "labels: [x] # n\n"),
    ("title: t\n", Add("x"), "title: t\nlabels: [x]\n"),
    ("", Add("x"), "labels: [x]\n"),
    ("notes: |\n  labels: [no]\n  more\n", Add("x"), "notes: |\n  labels: [no]\n  more\nlabels: [x]\n"),
    ("  title: t\n  labels: [a]\n", Add("x"), "  title: t\n  labels: [a, x]\n"),
    ("\"labels\" : [a]\n", Add("x"), "\"labels\" : [a, x]\n"),
    (
        "other: {labels: [q]}\nlabels: [a]\nmy-labels: [r]\n",
        Remove("a"),
        "other: {labels: [q]}\nlabels: []\nmy-labels: [r]\n",
    ),
    // What needs quotes and what does not.
    ("labels: []\n", Add("help wanted"), "labels: [help wanted]\n"),
    ("labels: []\n", Add("ai: todo?"), "labels: [\"ai: todo?\"]\n"),
    ("labels: []\n", Add("kind:bug"), "labels: [kind:bug]\n"),
    ("labels: []\n", Add("状態/着手"), "labels: [状態/着手]\n"),
    ("labels: []\n", Add("🤖 go"), "labels: [🤖 go]\n"),
    ("labels: []\n", Add("a+b"), "labels: [a+b]\n"),
    ("labels: []\n", Add("a #b"), "labels: [\"a #b\"]\n"),
    ("labels: []\n", Add("#todo"), "labels: [\"#todo\"]\n"),
    ("labels: []\n", Add("1.10"), "labels: [\"1.10\"]\n"),
    ("labels: []\n", Add("2024-12-07"), "labels: [\"2024-12-07\"]\n"),
    ("labels: []\n", Add("~"), "labels: [\"~\"]\n"),
    ("labels: []\n", Add("say \"hi\" \\"), "labels: [say \"hi\" \\]\n"),
    ("labels: []\n", Add("line\nbreak\u{2028}\u{7f}"), "labels: [\"line\\u000abreak\\u2028\\u007f\"]\n"),
    ("labels:\n- a\n", Add("x, y"), "labels:\n- a\n- \"x, y\"\n"),
];

fn around(front: &str, crlf: bool, bom: bool) -> String {
    let text = format!("---\n{front}---  \n\nlabels: [no]\n---\nbody \n\n");
    let text = if crlf { text.replace('\n', "\r\n") } else { text };
    if bom { format!("\u{feff}{text}") } else { text }
}

#[test]
fn labels_are_rewritten_byte_for_byte() {
    for (before, change, after) in REWRITES {
        for (crlf, bom) in [(false, false), (true, false), (false, true), (true, true)] {
            let desk = Desk::with("i.md", around(before, crlf, bom));
            let done = match change {
                Add(label) => desk.forge.add_label(&key("i"), label),
                Remove(label) => desk.forge.remove_label(&key("i"), label),
            };
            done.unwrap_or_else(|error| panic!("from {before:?}: {error}"));
            assert_eq!(desk.read("i.md"), around(after, crlf, bom), "from {before:?}");
            let item = desk.forge.item(&key("i")).unwrap().unwrap();
            match change {
                Add(label) => assert!(item.has_label(label), "{:?}", item.labels),
                Remove(label) => assert!(!item.has_label(label), "{:?}", item.labels),
            }
        }
    }
}

#[test]
fn what_cannot_be_edited_is_refused_and_left() {
    for front in [
        "{title: t, labels: [a]}\n",
        "labels: &l [a]\n",
        "labels: [&l a]\n",
        "labels: >-\n  a\n",
        "labels: !!seq [a]\n",
    ] {
        let desk = Desk::with("i.md", around(front, false, false));
        assert_eq!(desk.labels_of("i"), ["a"], "{front}");
        for error in
            [desk.forge.add_label(&key("i"), "b").unwrap_err(), desk.forge.remove_label(&key("i"), "a").unwrap_err()]
        {
            assert_eq!(error.kind(), Kind::Task);
            assert!(error.sentence().contains("i.md"), "{error}");
        }
        assert_eq!(desk.read("i.md"), around(front, false, false));
    }
}

/// xorshift64*: random enough, and the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

/// A label the way some person might write it.
fn by_hand(dice: &mut Dice, label: &str) -> String {
    let plain = label.chars().all(|char| char.is_alphabetic() || char == ' ');
    match dice.roll(3) {
        0 if plain => label.to_owned(),
        0 | 1 => format!("'{}'", label.replace('\'', "''")),
        _ => serde_json::to_string(label).unwrap(),
    }
}

#[test]
fn any_style_survives_any_changes() {
    for seed in 1..=150_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let pool: Vec<&str> = ODD_LABELS.iter().copied().chain(["bug", "coding agent", "x"]).collect();
        let mut labels: Vec<&str> = Vec::new();
        for _ in 0..dice.roll(5) {
            let label = dice.pick(&pool);
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let written: Vec<String> = labels.iter().map(|label| by_hand(&mut dice, label)).collect();
        let comment = dice.pick(&["", " # mine", "   # a, [b]: c"]);
        let block = match dice.roll(5) {
            _ if labels.is_empty() => format!("labels:{}{comment}\n", dice.pick(&["", " []", " ~"])),
            0 => format!("labels: [{}]{comment}\n", written.join(dice.pick(&[", ", ",", " , "]))),
            1 => format!("labels: [\n    {}\n  ]{comment}\n", written.join(&format!(",{comment}\n    "))),
            2 if labels.len() == 1 => format!("labels: {}{comment}\n", written[0]),
            _ => {
                let indent = dice.pick(&["", "  ", "    "]);
                let lines = written.iter().map(|label| format!("{indent}- {label}{}\n", dice.pick(&["", " # why"])));
                format!("labels:{comment}\n{}", lines.collect::<String>())
            }
        };
        let head = dice.pick(&["", "title: t # odd\n", "notes: |+\n  labels: [q]\n\n", "# first\n\"title\" : 'x'\n"]);
        let tail = dice.pick(&["", "state: 'open' # now\n", "\n# end\nmine: {labels: [z]}\n"]);
        let crlf = dice.roll(2) == 0;
        let fit = |text: &str| if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
        let (head, tail) = (fit(&format!("---\n{head}")), fit(&format!("{tail}---\nbody\n\n")));
        let desk = Desk::with("i.md", format!("{head}{}{tail}", fit(&block)));
        assert_eq!(desk.labels_of("i"), labels, "seed {seed}: {block}");
        for _ in 0..12 {
            let label = dice.pick(&pool);
            if dice.roll(2) == 0 {
                desk.forge.add_label(&key("i"), label).unwrap();
                if !labels.contains(&label) {
                    labels.push(label);
                }
            } else {
                desk.forge.remove_label(&key("i"), label).unwrap();
                labels.retain(|one| *one != label);
            }
            let text = desk.read("i.md");
            assert_eq!(desk.labels_of("i"), labels, "seed {seed}: {text}");
            let middle = text.strip_prefix(&head).and_then(|rest| rest.strip_suffix(&tail));
            let middle = middle.unwrap_or_else(|| panic!("seed {seed}: more than the labels changed: {text}"));
            assert!(middle.starts_with("labels:"), "seed {seed}: {middle}");
            assert_eq!(crlf, middle.contains("\r\n"), "seed {seed}");
            assert!(!crlf || !middle.replace("\r\n", "").contains('\n'), "seed {seed}");
        }
    }
}

#[test]
fn missing_facts_have_defaults() {
    let desk = Desk::with("add-subtracts.md", "---\n---\n");
    let item = desk.forge.item(&key("add-subtracts")).unwrap().unwrap();
    assert_eq!((item.title.as_str(), item.author.as_str(), item.body.as_str()), ("add-subtracts", "ghost", ""));
    assert_eq!((item.state, item.labels.len(), item.assignees.len()), (ItemState::Open, 0, 0));
    assert_eq!(item.location, desk.path("add-subtracts.md").display().to_string());
    let error = desk.forge.repository(&key("add-subtracts")).unwrap_err();
    assert_eq!(error.kind(), Kind::Task);
    assert!(format!("{error:#}").contains("repository:"), "{error:#}");

    desk.write("n.md", "---\ntitle: 1.10\nauthor: null\nassignees: bob\nstate: Closed\nmine: {a: [1]}\nmine: 2\n---\n\n\r\n  code\r\nx\n\n");
    let item = desk.forge.item(&key("n")).unwrap().unwrap();
    assert_eq!((item.title.as_str(), item.author.as_str(), item.body.as_str()), ("1.10", "ghost", "  code\nx"));
    assert_eq!((item.state, item.assignees), (ItemState::Closed, vec!["bob".to_owned()]));
}

#[test]
fn bad_files_do_not_stop_the_others() {
    let desk = Desk::with("good.md", "---\nlabels: coding agent\n---\n");
    let bad: [(&str, &[u8]); 8] = [
        ("empty", b""),
        ("no-front", b"just text\n"),
        ("unclosed", b"---\ntitle: x\n"),
        ("yaml", b"---\ntitle: [\n---\n"),
        ("twice", b"---\nlabels: [a]\nlabels: [coding agent]\n---\n"),
        ("state", b"---\nlabels: [coding agent]\nstate: maybe\n---\n"),
        ("map", b"---\nlabels: {coding agent: 1}\n---\n"),
        ("latin1", b"---\ntitle: caf\xe9\nlabels: [coding agent]\n---\n"),
    ];
    for (name, bytes) in bad {
        desk.write(&format!("{name}.md"), bytes);
    }
    fs::create_dir(desk.path("dir.md")).unwrap();
    symlink("nowhere", desk.path("dangling.md")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, desk.path("pipe.md"), rustix::fs::Mode::RWXU).unwrap();
    desk.write("good.comments.md", "---\nlabels: coding agent\n---\n");
    desk.write(".hidden.md", "---\nlabels: coding agent\n---\n");
    desk.write("also.txt", "---\nlabels: coding agent\n---\n");
    desk.write("bell\u{7}.md", "---\nlabels: coding agent\n---\n");
    desk.write("good-2.md", "---\nlabels: [Coding Agent]\n---\n");
    assert_eq!(desk.forge.candidates().unwrap().keys, [key("good"), key("good-2")]);
    for name in bad.map(|(name, _)| name).into_iter().chain(["dir", "dangling", "pipe"]) {
        let error = desk.forge.item(&key(name)).unwrap_err();
        assert_eq!(error.kind(), Kind::Task, "{name}");
        assert!(error.sentence().contains(&format!("{name}.md")), "{error}");
        assert_eq!(desk.forge.add_label(&key(name), "x").unwrap_err().kind(), Kind::Task, "{name}");
    }
    // A person broke the file in mid-work: we can still say so beside it.
    desk.forge.post_comment(&key("yaml"), "cannot read it").unwrap();
    assert_eq!(desk.forge.item(&key("good.comments")).unwrap_err().kind(), Kind::Task);
    assert_eq!(desk.forge.item(&TaskKey::LocalIssue { name: "../x".into() }).unwrap_err().kind(), Kind::Task);
}

#[test]
fn a_directory_that_is_gone_is_the_hosts_fault() {
    let desk = Desk::new();
    fs::remove_dir(desk.path("")).unwrap();
    let error = desk.forge.probe().unwrap_err();
    assert_eq!(error.kind(), Kind::Host);
    assert!(format!("{error:#}").contains("local.tasks_dir"), "{error:#}");
    assert_eq!(desk.forge.candidates().unwrap_err().kind(), Kind::Host);
    assert_eq!(desk.forge.item(&key("x")).unwrap_err().kind(), Kind::Host);
    assert_eq!(desk.forge.post_comment(&key("x"), "b").unwrap_err().kind(), Kind::Host);
    assert_eq!(desk.forge.add_label(&key("x"), "b").unwrap_err().kind(), Kind::Host);
}

#[test]
fn a_repository_is_a_path_beside_the_file_or_a_url() {
    let desk = Desk::new();
    let widgets = fs::canonicalize(desk.home.path().join("widgets")).unwrap().display().to_string();
    let home_less = desk.path("~/x").display().to_string();
    for (said, url) in [
        ("../widgets", widgets.as_str()),
        (&widgets, &widgets),
        ("https://example.org/a/b.git", "https://example.org/a/b.git"),
        ("file:///srv/x", "file:///srv/x"),
        ("git@example.org:a/b.git", "git@example.org:a/b.git"),
        ("~/x", &home_less),
        ("/srv/a:b", "/srv/a:b"),
    ] {
        desk.write("i.md", format!("---\nrepository: '{said}' # here\n---\n"));
        assert_eq!(desk.forge.repository(&key("i")).unwrap().url, url);
        assert_eq!(desk.forge.item(&key("i")).unwrap().unwrap().repository, said);
    }
    desk.write("i.md", "---\nrepository: '-oProxyCommand=x:y'\n---\n");
    assert!(desk.forge.repository(&key("i")).unwrap().url.starts_with('/'));
}

#[test]
fn mode_and_link_of_a_file_stay() {
    let desk = Desk::with("real.txt", "---\nlabels: []\n---\n");
    fs::set_permissions(desk.path("real.txt"), fs::Permissions::from_mode(0o664)).unwrap();
    symlink("real.txt", desk.path("i.md")).unwrap();
    desk.forge.add_label(&key("i"), "x").unwrap();
    assert!(fs::symlink_metadata(desk.path("i.md")).unwrap().is_symlink());
    assert_eq!(desk.read("real.txt"), "---\nlabels: [x]\n---\n");
    assert_eq!(fs::metadata(desk.path("real.txt")).unwrap().permissions().mode() & 0o7777, 0o664);
}

#[test]
fn what_a_killed_process_left_is_cleaned() {
    let desk = Desk::with("i.md", "---\nlabels: []\n---\n");
    desk.write(".i.md.4711.tmp", "half");
    desk.write(".mine.tmp", "a person's");
    desk.forge.add_label(&key("i"), "x").unwrap();
    assert!(!desk.path(".i.md.4711.tmp").exists() && desk.path(".mine.tmp").exists());
}

#[test]
fn comments_by_hand_are_read_with_care() {
    let text = "\u{feff}written above all\r\n\r\n## alice · 2024-12-07T12:00:00+09:00 · a1\r\n\r\nfirst\r\n\r\n## Heading\r\nmore\r\n\
                ##  · 2024-12-07T01:00:00Z · c7\nearlier\n## x · y · no time\n## bob · 2024-12-08T00:00:00Z · two words\n\n";
    let desk = Desk::with("i.md", "---\n---\n");
    desk.write("i.comments.md", text);
    let comments = desk.forge.comments(&key("i")).unwrap();
    let found: Vec<_> = comments
        .iter()
        .map(|comment| {
            (comment.author.as_str(), comment.created_at.as_str(), comment.id.as_str(), comment.body.as_str())
        })
        .collect();
    assert_eq!(
        found,
        [
            (
                "ghost",
                "2024-12-07T01:00:00+00:00",
                "c7",
                "earlier\n## x · y · no time\n## bob · 2024-12-08T00:00:00Z · two words"
            ),
            ("alice", "2024-12-07T03:00:00+00:00", "a1", "first\n\n## Heading\nmore"),
        ]
    );
    assert_eq!(desk.forge.post_comment(&key("i"), "ours").unwrap(), "c8");
    let after = desk.read("i.comments.md");
    assert!(after.starts_with(text));
    desk.forge.update_comment(&key("i"), "c8", "ours, better").unwrap();
    assert_eq!(desk.read("i.comments.md"), after.replace("\nours\n", "\nours, better\n"));
    assert_eq!(desk.forge.update_comment(&key("i"), "a1", "not ours").unwrap_err().kind(), Kind::Task);
}

#[test]
fn a_torn_append_breaks_nothing() {
    let whole = format!(
        "## alice · 2024-12-07T03:00:00Z · a1\n\nhello\n\n## {BOT} · 2024-12-07T03:00:01+00:00 · c12\n\nどうも\n"
    );
    for length in 0..=whole.len() {
        let desk = Desk::with("i.md", "---\n---\n");
        desk.write("i.comments.md", &whole.as_bytes()[..length]);
        let before = desk.forge.comments(&key("i")).unwrap();
        let id = desk.forge.post_comment(&key("i"), "next").unwrap();
        let after = desk.forge.comments(&key("i")).unwrap();
        assert_eq!(after.len(), before.len() + 1, "cut at {length}");
        assert_eq!((after.last().unwrap().body.as_str(), &after.last().unwrap().id), ("next", &id));
        assert!(before.iter().all(|comment| comment.id != id), "cut at {length}");
        desk.forge.update_comment(&key("i"), &id, "changed").unwrap();
    }
}

#[test]
fn bytes_that_are_no_text_stay_in_the_comments() {
    let before = b"## alice \xc2\xb7 2024-12-07T03:00:00Z \xc2\xb7 a1\ncaf\xe9\n".to_vec();
    let desk = Desk::with("i.md", "---\n---\n");
    desk.write("i.comments.md", &before);
    let id = desk.forge.post_comment(&key("i"), "x").unwrap();
    desk.forge.update_comment(&key("i"), &id, "y").unwrap();
    assert!(fs::read(desk.path("i.comments.md")).unwrap().starts_with(&before));
    assert_eq!(desk.forge.comments(&key("i")).unwrap()[0].body, "caf\u{fffd}");
}

const WORKER: &str = "FORGE_LOCAL_TEST_WORKER";

/// One of the processes of the next test; nothing when run by itself.
#[test]
fn worker_process() {
    let Ok(job) = std::env::var(WORKER) else { return };
    let (number, home) = job.split_once(':').unwrap();
    let forge = forge_in(Path::new(home));
    for round in 0..10 {
        forge.add_label(&key("i"), &format!("w{number} r{round}")).unwrap();
        forge.post_comment(&key("i"), &format!("w{number} r{round}")).unwrap();
    }
    forge.remove_label(&key("i"), &format!("old{number}")).unwrap();
}

#[test]
fn eight_processes_lose_nothing() {
    let desk =
        Desk::with("i.md", "---\nlabels: # all\n- old0\n- old1\n- old2\n- old3\n- old4\n- old5\n- old6\n- old7\n---\n");
    let start = |number| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "forge_local::worker_process"])
            .env(WORKER, format!("{number}:{}", desk.home.path().display()))
            .output()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..8).map(|number| scope.spawn(move || start(number))).collect();
        for worker in running {
            let output = worker.join().unwrap().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
    });
    let mut labels = desk.labels_of("i");
    labels.sort();
    let wanted: Vec<String> =
        (0..8).flat_map(|worker| (0..10).map(move |round| format!("w{worker} r{round}"))).collect();
    assert_eq!(labels, wanted);
    let mut bodies: Vec<String> =
        desk.forge.comments(&key("i")).unwrap().into_iter().map(|comment| comment.body).collect();
    bodies.sort();
    assert_eq!(bodies, wanted);
}

#[cfg(feature = "faults")]
#[test]
fn a_failing_disk_leaves_the_old_or_the_new() {
    use coding_agent::sys::fault;
    const NO_SPACE: i32 = 28;
    let issue = "---\nlabels: [a]\n---\nbody\n";
    let changes: [fn(&Local) -> coding_agent::error::Result<()>; 3] = [
        |forge| forge.add_label(&key("i"), "b"),
        |forge| forge.post_comment(&key("i"), "two").map(drop),
        |forge| forge.update_comment(&key("i"), "c1", "better"),
    ];
    for change in changes {
        for nth in 1.. {
            let desk = Desk::with("i.md", issue);
            desk.forge.post_comment(&key("i"), "one").unwrap();
            let before = (desk.read("i.md"), desk.read("i.comments.md"));
            fault::arm(nth, NO_SPACE);
            let done = change(&desk.forge);
            if !fault::disarm() {
                assert!(done.is_ok() && nth > 1);
                break;
            }
            assert_eq!(done.unwrap_err().kind(), Kind::Host);
            let after = (desk.read("i.md"), desk.read("i.comments.md"));
            // Only the sync of the directory, the last step, can fail with the change in place.
            let is_whole = after.0.ends_with("\nbody\n") && after.1.ends_with('\n');
            assert!(after == before || is_whole && desk.forge.item(&key("i")).is_ok(), "{nth}: {after:?}");
            let names: Vec<_> = fs::read_dir(desk.path("")).unwrap().collect();
            assert_eq!(names.len(), 3, "{nth}: {names:?}");
        }
    }
}
