//! Text of programs, models and strangers made harmless (cases C19, C22, C23, C58): tables first, then
//! laws for any text.

use coding_agent::text::{
    ProgramOutput, Redactor, as_displayed, escaped, first_line, fold_line, fold_lines, head_chars, inert, inline_code,
    json_without_nul, printable, printable_json, printable_line, quoted, subject, visible, without_controls,
};
use serde_json::{Value, json};

use crate::support::Random;

// --- what programs write

#[test]
fn c22_a_terminal_would_show_this_in_the_end() {
    let table: &[(&str, &str)] = &[
        ("plain\ttext\n", "plain\ttext\n"),
        ("10%\r20%\r100%\n", "100%\n"),
        ("100 of 200\r5 of 9\n", "5 of 9 200\n"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("50%\r\x1b[K60%\r\x1b[2Kdone\n", "done\n"),
        ("abcdef\x1b[3D\x1b[3GX\x1b[K\n", "abX\n"),
        ("abcdef\x1b[4G\x1b[1Kx", "   xef"),
        ("ab\x08\x08\x08xy", "xy"),
        ("N\x08NA\x08AM\x08M_\x08E", "NAME"),
        ("\x1b[1;31mred\x1b[0m \x1b[38;5;208mx\x1b[m", "red x"),
        ("\x1b]0;title\x07text \x1b]2;title\x1b\\more", "text more"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\!", "link!"),
        ("\x1bP1$r0m\x1b\\a\x1b_apc\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"),
        ("\x1b(B\x1b)0\x1b7\x1b8\x1b=\x1bcend", "end"),
        ("\u{9b}31mc1\u{9d}0;t\u{9c}x\u{90}q\u{9c}\u{85}", "c1x\\u{85}"),
        // What is not ended ends with its line; what is no code is shown.
        ("\x1b]0;never ended\nnext", "\nnext"),
        ("\x1b[31", ""),
        ("\x1b[31\nnext", "\nnext"),
        ("\x1b[3あ", "あ"),
        ("a\x1b", "a\\u{1b}"),
        ("a\x1b\x1b[1mb", "a\\u{1b}b"),
        ("a\x1bあ", "a\\u{1b}あ"),
        ("\x1b]0;a\x1b[1mb", "b"),
        ("nul\0bell\x07", "nul\\u{0}bell\\u{7}"),
        ("あいう\rか", "かいう"),
        ("x\x1b[99999999999999999999G\x1b[999999999Gy", "xy"),
    ];
    for (written, shown) in table {
        assert_eq!(as_displayed(written), *shown, "{written:?}");
    }
}

#[test]
fn c22_binary_data_in_output_is_named_and_not_shown() {
    let mut random = Random::new(22);
    let noise: Vec<u8> = (0..65_536).map(|_| random.below(256) as u8).collect();
    let output = ProgramOutput::new(&noise);
    assert!(output.text.len() < 100 && output.text.contains(" bytes of binary data …]"), "{:?}", output.text);
    assert!(!output.is_whole);
    // Text around it stays.
    let mixed = [b"first\n", noise.as_slice(), b"\nlast line of text\nand one more\n"].concat();
    let text = ProgramOutput::new(&mixed).text;
    assert!(
        text.starts_with("first\n") && text.len() < 150 && text.ends_with("last line of text\nand one more\n"),
        "{text:?}"
    );
    let png = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(), &noise[..9_000]].concat();
    assert_eq!(ProgramOutput::new(&png).text.split_once(" bytes").unwrap().1, " of binary data (PNG image) …]\n");
    let utf_16: Vec<u8> = "\u{feff}Some words.\n".repeat(50).encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(ProgramOutput::new(&utf_16).text.contains("binary data (perhaps UTF-16 text)"));
    // What only looks odd is shown.
    for bytes in [
        "./src/main.rs\0./src/lib.rs\0".repeat(50).into_bytes(),
        "caf\u{e9} au lait\n".repeat(50).chars().map(|character| character as u8).collect(),
        "\x1b[32mok\x1b[0m\n".repeat(50).into_bytes(),
        "あ👩‍👩‍👧\n".repeat(50).into_bytes(),
        b"\xff\xfe\0".to_vec(),
    ] {
        assert!(!ProgramOutput::new(&bytes).text.contains("binary"), "{bytes:?}");
    }
    assert_eq!(escaped(b"a\xff\0\x1b[1m\r\nb\rc\xe3\x81"), "a\\xff\\u{0}\\u{1b}[1m\nb\\rc\\xe3\\x81");
}

#[test]
fn c22_long_lines_data_uris_and_repetitions_are_folded() {
    let script = "x=1;".repeat(500_000);
    assert_eq!(fold_line(&script), format!("{}[… 1998000 more characters in this line …]", "x=1;".repeat(500)));
    let page = format!("<img src=\"data:image/png;base64,{}\"> end\nnext", "A".repeat(80_000));
    assert_eq!(fold_lines(&page), "<img src=\"data:image/png;base64,[… 80000 characters of data …]\"> end\nnext");
    assert_eq!(fold_lines(&"y\n".repeat(5_000)), "y\n[… the line above 4999 more times …]\n");
    assert_eq!(fold_lines("a\na\na\nb"), "a\na\na\nb", "a few are no flood");
    let output = ProgramOutput::from_parts(&b"y\n".repeat(99), 7, &b"z\n".repeat(99));
    assert_eq!(
        output.text,
        "y\n[… the line above 98 more times …]\n\n[… 7 bytes left out …]\nz\n[… the line above 98 more times …]\n"
    );
    // An escape that the gap cuts does not reach over it.
    let output = ProgramOutput::from_parts(b"a\x1b]0;ti", 9, b"tle\x07b");
    assert_eq!(output.text, "a\n[… 9 bytes left out …]\ntle\\u{7}b");
    assert_eq!(ProgramOutput::from_parts(b"a\xe3", 0, b"\x81\x82b").text, "aあb", "nothing is between them");
}

#[test]
fn property_output_of_programs() {
    let mut random = Random::new(1);
    for round in 0..1_000 {
        let mut bytes = random.text(60).into_bytes();
        for _ in 0..random.below(if round % 3 == 0 { 600 } else { 4 }) {
            let at = random.below(bytes.len() + 1);
            bytes.insert(at, random.below(256) as u8);
        }
        let output = ProgramOutput::new(&bytes);
        assert!(!output.text.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{bytes:?}: {output:?}");
        assert!(output.text.lines().all(|line| line.len() < 2_100), "{bytes:?}");
        // A control character that is shown takes six characters, an invalid byte three.
        assert!(output.text.len() <= 6 * bytes.len() + 100, "{bytes:?}");
        assert_eq!(ProgramOutput::new(output.text.as_bytes()).text, output.text);
        if output.is_whole {
            let lines = |text: &str| text.matches('\n').count();
            assert_eq!(lines(&output.text), bytes.iter().filter(|byte| **byte == b'\n').count());
        }
        let cut = random.below(bytes.len() + 1);
        let parts = ProgramOutput::from_parts(&bytes[..cut], 0, &bytes[cut..]);
        assert_eq!(parts, output);
        ProgramOutput::from_parts(&bytes[..cut], 5, &bytes[cut..]);
        // Everything is in the file beside: decoding gives it back but for carriage returns.
        let file = escaped(&bytes);
        assert!(!file.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{file:?}");
        assert_eq!(escaped(file.as_bytes()), file);
    }
}

#[test]
fn property_terminal_codes_and_folding() {
    let mut random = Random::new(2);
    for _ in 0..1_000 {
        let text = random.text(50);
        let shown = as_displayed(&text);
        assert!(!shown.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{text:?}: {shown:?}");
        assert_eq!(as_displayed(&shown), shown, "{text:?}");
        assert_eq!(shown.matches('\n').count(), text.matches('\n').count(), "{text:?}");
        let clean = without_controls(&text);
        assert!(!clean.chars().any(|c| c.is_control() && !"\n\t".contains(c)));
        assert_eq!(without_controls(&clean), clean);
        let long = text.repeat(random.below(200));
        let folded = fold_lines(&long);
        assert!(folded.lines().all(|line| line.len() < 2_100), "{text:?}");
        if long.lines().all(|line| line.len() < 200) && long.lines().count() < 10 {
            assert_eq!(folded, long);
        }
        for line in long.lines().take(3) {
            assert!(fold_line(line).len() <= 2_000 + 50, "{line:?}");
        }
    }
}

// --- what is printed and stored

#[test]
fn json_on_a_terminal_means_the_same() {
    let value =
        json!({ "a\u{202e}": ["\u{9b}31m", "\u{7f}\u{200b}\u{e0041}", "あ\n\t\0\x1b", "👩\u{200d}👧"], "b": 1 });
    for json in [value.to_string(), format!("{value:#}\n")] {
        let shown = printable_json(&json);
        assert_eq!(printable(&shown), shown, "nothing is left to be made visible");
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }
    assert!(printable_json(&json!("\u{e0041}").to_string()).contains("\\udb40\\udc41"));
    assert_eq!(
        json_without_nul(json!({ "a\0": ["b\0c", { "d": "\0" }, 1], "e": "\x1b" })),
        json!({ "a\\u{0}": ["b\\u{0}c", { "d": "\\u{0}" }, 1], "e": "\x1b" })
    );
}

#[test]
fn property_json_lines_and_titles() {
    let mut random = Random::new(3);
    for _ in 0..1_000 {
        let value = json!({ random.text(5): [random.text(20), { "b": random.text(20) }] });
        let shown = printable_json(&value.to_string()).into_owned();
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        assert_eq!(printable_line(&shown), shown);
        let text = random.text(300);
        for title in [first_line(&text), subject(&text)] {
            assert!(title.chars().count() <= 200 && !title.contains(char::is_control), "{text:?}: {title:?}");
        }
        assert_eq!(subject(&subject(&text)), subject(&text), "{text:?}");
        assert!(!subject(&text).starts_with('#'));
        let shown = visible(&text);
        assert!(!shown.contains("<!--") && !shown.contains("-->"), "{text:?}");
        assert!(!shown.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{text:?}");
    }
}

#[test]
fn titles_are_one_line_and_call_nobody() {
    let table = [
        ("Fix the parser", "Fix the parser"),
        ("", ""),
        ("\n \n  second\nthird", "second"),
        ("# heading #", "heading #"),
        ("#12 crashes", "12 crashes"),
        ("closes #12, @bob, GH-3", "closes # 12, @ bob, GH- 3"),
        ("a\x1b]0;t\x07\0b\u{202e}c", "a\\u{1b}]0;t\\u{7}\\u{0}bc"),
        ("`$(id)` and ${HOME}", "`$(id)` and ${HOME}"),
    ];
    for (title, expected) in table {
        assert_eq!(subject(title), expected, "{title:?}");
    }
    assert_eq!(first_line(&"🔴".repeat(300)), "🔴".repeat(200));
}

// --- what models and strangers write into Markdown

#[test]
fn c58_markdown_of_a_model_loads_and_hides_nothing() {
    let table: &[(&str, &str)] = &[
        ("plain **bold** [link](https://a.example) `code`", "plain **bold** [link](https://a.example) `code`"),
        ("![x](https://evil.example/?secret)", "!\\[x](https://evil.example/?secret)"),
        ("<img src=\"https://evil.example\">", "&lt;img src=\"https://evil.example\">"),
        ("a <!-- hidden --> b", "a &lt;!-- hidden --> b"),
        ("<details><summary>x</summary>\n\n</details>", "&lt;details>&lt;summary>x&lt;/summary>\n\n&lt;/details>"),
        ("1 < 2 && a<b", "1 < 2 && a&lt;b"),
        ("`Vec<String>` and `a && b`", "`Vec<String>` and `a && b`"),
        ("``a`b<i>``", "``a`b<i>``"),
        // Code, or so it seems: what would do harm if it were none is broken.
        ("`<img src=x>` `<!--` `</Details>`", "`< img src=x>` `< !--` `< /Details>`"),
        ("`![a](b)` `![a][b]` `vec![1]`", "`! [a](b)` `! [a][b]` `vec![1]`"),
        ("`![a]`\n\n[a]: http://evil.example", "`! [a]`\n\n[a]: http://evil.example"),
        ("`\n`<img src=x>`", "`\n`< img src=x>`"),
        ("\\`<img src=x>`", "\\`&lt;img src=x>`"),
        ("\\\\`<b>`<b>", "\\\\`<b>`&lt;b>"),
        ("\\<b> \\< \\![a](b)", "&lt;b> \\< \\!\\[a](b)"),
        (
            "```rust\nlet a: Vec<u8> = vec![1];\n<script>\n```\n<b>",
            "```rust\nlet a: Vec<u8> = vec![1];\n< script>\n```\n&lt;b>",
        ),
        ("> ~~~~\n> <b>\n> ~~~\n> ~~~~\n<b>", "> ~~~~\n> <b>\n> ~~~\n> ~~~~\n&lt;b>"),
        (
            "&#64;bob &#x40;bob &commat;bob &num;1 &lt; &amp; &copy;",
            "&amp;# 64;bob &amp;#x40;bob &amp;commat;bob &amp;num;1 &lt; &amp; &copy;",
        ),
        ("`&#64;bob`", "`& # 64;bob`"),
        ("@bob, fixes #1, org/repo#2, !3, GH-4, gh-4, Gh-4", "@ bob, fixes # 1, org/repo# 2, ! 3, GH- 4, gh- 4, Gh- 4"),
        ("https://github.com/a/b/issues/5 /pull/6", "https://github.com/a/b/issues/ 5 /pull/ 6"),
        ("@\u{200b}bob #\u{200b}1 a\u{202e}b\0", "@ bob # 1 ab\\u{0}"),
        ("`$(id)` $(id) `env`", "`$(id)` $(id) `env`"),
    ];
    for (text, expected) in table {
        assert_eq!(inert(text), *expected, "{text:?}");
        assert_eq!(inert(expected), *expected, "twice: {text:?}");
    }
}

#[test]
fn code_in_a_line_keeps_its_backquotes() {
    let table = [
        ("cargo test", "`cargo test`"),
        ("echo `id`", "`` echo `id` ``"),
        ("`", "`` ` ``"),
        ("a``b", "```a``b```"),
        (" a", "`  a `"),
        ("", "`  `"),
        ("a\nb\0\t\u{202e}c", "`a b\\u{0} c`"),
    ];
    for (text, expected) in table {
        assert_eq!(inline_code(text), expected, "{text:?}");
    }
    let mut random = Random::new(5);
    for _ in 0..1_000 {
        let text = random.text(20);
        let code = inline_code(&text);
        let fence = code.len() - code.trim_start_matches('`').len();
        assert!(!code.contains('\n'));
        // Read as CommonMark says: the first run of that length closes, and it is the last.
        let inside = &code[fence..code.len() - fence];
        assert!(code.ends_with(&"`".repeat(fence)), "{text:?}: {code:?}");
        assert!(inside.split(|c| c != '`').all(|run| run.len() != fence), "{text:?}: {code:?}");
        assert!(inside.starts_with(|c| c != '`') && inside.ends_with(|c| c != '`'), "{text:?}: {code:?}");
    }
}

/// What a forge could act on wherever it stands, found as plainly as can be.
fn harm_in(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let active = ["<img", "<!--", "<script", "<details", "</details", "<video", "<svg", "<iframe"];
    let found = active.iter().find(|mark| lower.contains(*mark)).map(|mark| (*mark).to_owned());
    let mut chars = text.chars().peekable();
    let mut before = ' ';
    let mut acts = None;
    while let Some(character) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        if "#!".contains(character) && next.is_ascii_digit() {
            acts = Some(format!("{character}{next}"));
        }
        if character == '@' && !before.is_alphanumeric() && next.is_alphanumeric() {
            acts = Some(format!("@{next}"));
        }
        before = character;
    }
    found.or(acts)
}

#[test]
fn c58_property_no_tag_picture_or_reference_survives() {
    let mut random = Random::new(58);
    for _ in 0..1_500 {
        let text = random.text(40);
        let safe = inert(&text);
        assert_eq!(harm_in(&safe), None, "{text:?}: {safe:?}");
        assert!(!safe.contains("![x](") && !safe.contains("![x]["), "{text:?}: {safe:?}");
        assert!(!safe.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{text:?}: {safe:?}");
        assert_eq!(inert(&safe), safe, "{text:?}");
        assert_eq!(safe.matches('\n').count(), text.matches('\n').count());
    }
}

// --- cutting Markdown

#[test]
fn c19_what_is_shown_as_one_sign_is_not_parted() {
    let family = "👩\u{200d}👩\u{200d}👧";
    assert_eq!(head_chars(&format!("ab{family}c"), 4), "ab");
    assert_eq!(head_chars(&format!("ab{family}c"), 7), format!("ab{family}"));
    assert_eq!(head_chars("ae\u{301}b", 2), "a");
    assert_eq!(head_chars("a🇯🇵🇫🇷", 2), "a");
    assert_eq!(head_chars("a🇯🇵🇫🇷", 3), "a🇯🇵");
    assert_eq!(head_chars("a👍🏽b", 2), "a");
    assert_eq!(head_chars("abc", 0), "");
    assert_eq!(head_chars("abc", 9), "abc");
    let accents = "\u{301}".repeat(500);
    assert_eq!(head_chars(&accents, 100).chars().count(), 100, "nothing but accents is cut all the same");
    let mut random = Random::new(19);
    for _ in 0..1_000 {
        let text = random.text(30);
        let most = random.below(60);
        let cut = head_chars(&text, most);
        assert!(text.starts_with(cut) && cut.chars().count() <= most);
        assert!(cut.chars().count() + 40 > most.min(text.chars().count()), "{text:?} at {most}");
    }
}

/// Fences that are still open at the end of a quotation, by CommonMark's rules for blocks at the top
/// and in quotes; written for the test alone.
fn open_fence(quotation: &str) -> Option<String> {
    let mut open: Option<(usize, char, usize)> = None;
    for line in quotation.lines() {
        let (mut depth, mut rest) = (0, line);
        let limit = open.map_or(usize::MAX, |(depth, ..)| depth);
        while depth < limit {
            let inner = rest.trim_start_matches(' ');
            if rest.len() - inner.len() > 3 || !inner.starts_with('>') {
                break;
            }
            rest = inner[1..].strip_prefix(' ').unwrap_or(&inner[1..]);
            depth += 1;
        }
        if open.is_some() && depth < limit {
            open = None;
        }
        let content = rest.trim_start_matches(' ');
        if rest.len() - content.len() > 3 {
            continue;
        }
        for mark in ['`', '~'] {
            let length = content.chars().take_while(|c| *c == mark).count();
            let info = &content[length..];
            match open {
                Some((_, of, at_least))
                    if of == mark && length >= at_least && info.trim_matches([' ', '\t']).is_empty() =>
                {
                    open = None
                }
                None if length >= 3 && !(mark == '`' && info.contains('`')) => {
                    open = Some((depth, mark, length));
                    break;
                }
                _ => {}
            }
        }
    }
    open.map(|(_, mark, length)| mark.to_string().repeat(length))
}

fn note(left_out: usize) -> String {
    format!("({left_out} left out)")
}

#[test]
fn c23_a_cut_inside_a_fence_closes_it() {
    for (opening, closing) in
        [("```", "> ```"), ("~~~~rust", "> ~~~~"), ("  ```", ">   ```"), ("> ```", "> > ```"), ("- ```", ">   ```")]
    {
        let quote = if opening.starts_with("> ") { "> " } else { "" };
        let words = format!("Before.\n{opening}\n{}", format!("{quote}  let x = 1;\n").repeat(500));
        let cut = quoted(&words, 400, note);
        let (quotation, told) = cut.split_once("\n\n").unwrap();
        assert!(quotation.ends_with(&format!("let x = 1;\n{closing}")), "{opening}: {cut}");
        assert_eq!(told.matches("left out").count(), 1, "{cut}");
        assert!(cut.chars().count() <= 400 && cut.chars().count() > 350, "{}", cut.chars().count());
    }
}

#[test]
fn c23_words_of_every_length_keep_the_limit() {
    for (count, units) in [
        (0, ["a"].as_slice()),
        (1, &["a", "🔴", "\n", "`"]),
        (98, &["a", "🔴", "語", "`", "<a"]),
        (99, &["a", "a b\n", "`", "&#1", "\n"]),
        (65_536, &["a", "\n", "`"]),
        (65_537, &["🔴"]),
        (200_000, &["語 ", "&", "!["]),
    ] {
        for unit in units {
            let words = unit.repeat(count);
            let cut = quoted(&words, 100, note);
            assert!(cut.chars().count() <= 100, "{count} × {unit:?}: {}", cut.chars().count());
            assert!(count < 99 || words.trim().is_empty() || cut.contains("left out"), "{count} × {unit:?}: {cut}");
        }
    }
    // One long line keeps its beginning; the numbers add up.
    let cut = quoted(&"🔴".repeat(70_000), 1_000, note);
    let told: usize = cut.split_once("\n\n(").unwrap().1.split_once(' ').unwrap().0.parse().unwrap();
    assert_eq!(cut.matches('🔴').count() + told, 70_000);
    assert!(told < 69_100, "{told}");
    assert_eq!(quoted("short\n\nwords", 100, note), "> short\n> \n> words");
    assert_eq!(quoted("too long for this", 5, note), "", "not even the note has room");
    assert_eq!(quoted("too long for this", 15, note), "(17 left out)");
}

#[test]
fn c23_property_quotations_are_bounded_and_closed() {
    let mut random = Random::new(23);
    for _ in 0..1_500 {
        // Of list items the test's reader knows nothing.
        let words = random.text(120).replace("- ", "");
        let most = random.below(400);
        let cut = quoted(&words, most, note);
        assert!(cut.chars().count() <= most, "{words:?} at {most}: {cut:?}");
        assert_eq!(harm_in(&cut), None, "{words:?}: {cut:?}");
        let quotation = cut.split_once("\n\n(").map_or(cut.as_str(), |(quotation, _)| quotation);
        assert!(quotation.lines().all(|line| line.starts_with('>') || line.starts_with('(')), "{words:?}: {cut:?}");
        if cut.contains(" left out)") {
            assert_eq!(open_fence(quotation), None, "{words:?} at {most}: {cut:?}");
        }
    }
}

#[test]
fn secrets_that_codes_had_parted_are_still_masked() {
    let redactor = Redactor::new(["sk-proj-0123456789"]);
    let shown = ProgramOutput::new(b"sk-\x1b[0mproj-\x1b]0;\x0701234567\x08789");
    assert_eq!(redactor.mask(&shown.text), "[secret]");
}
