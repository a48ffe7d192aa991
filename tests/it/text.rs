//! Cutting text (case C19) and masking secrets in it.

use coding_agent::text::{Redactor, head, head_and_tail, printable, printable_line, tail};

use crate::support::Random;

#[test]
fn c19_a_cut_falls_between_characters() {
    assert_eq!(head(&"あ".repeat(20), 30), "あ".repeat(10));
    assert_eq!(head(&"あ".repeat(20), 31), "あ".repeat(10));
    assert_eq!(tail(&"あ".repeat(20), 32), "あ".repeat(10));
    let family = format!("{}👩‍👩‍👧", "a".repeat(199));
    assert_eq!(head(&family, 200), "a".repeat(199));
    assert_eq!(head("🛡 <think>x</think>", 3), "");
    assert_eq!(head("🛡 <think>x</think>", 5), "🛡 ");
    assert_eq!(tail("<think>x</think>🛡", 3), "");
    assert_eq!(head("İ<THINK>", 1), "");
    assert_eq!(head("İ<THINK>", 2), "İ");
    for text in ["", "a", "あ"] {
        assert_eq!((head(text, 0), tail(text, 0)), ("", ""));
        assert_eq!((head(text, usize::MAX), tail(text, usize::MAX)), (text, text));
    }
}

#[test]
fn c19_head_and_tail_says_how_much_is_missing() {
    let text = "é".repeat(100);
    let cut = head_and_tail(&text, 100, None);
    assert!(cut.len() <= 100, "{} bytes", cut.len());
    assert_eq!(cut.matches('é').count() + left_out(&cut).unwrap(), 100);
    assert!(cut.starts_with('é') && cut.ends_with('é'));
    assert_eq!(head_and_tail(&text, 200, None), text, "what fits is unchanged");
    let cut = head_and_tail(&text, 150, Some("outputs/7.txt"));
    assert!(cut.contains("characters left out; the whole is in outputs/7.txt …]"), "{cut}");
    assert!(cut.len() <= 150);
    // No room for the note: the head alone, still within the limit.
    assert_eq!(head_and_tail(&text, 5, Some("outputs/7.txt")), "éé");
    assert_eq!(head_and_tail(&text, 0, None), "");
}

/// The number in the note of a cut text; the texts of these tests hold no other `[…`.
fn left_out(cut: &str) -> Option<usize> {
    cut.split_once("\n[… ")?.1.split_once(" characters left out")?.0.parse().ok()
}

#[test]
fn c19_property_every_text_at_every_limit() {
    let mut random = Random::new(19);
    let pieces = ["a", "é", "あ", "🛡", "👩‍👩‍👧", "İ", "\n", "\u{0}", "\u{301}", "語"];
    for _ in 0..400 {
        let text: String = (0..random.below(120)).map(|_| random.one_of(&pieces)).collect();
        let limit = random.below(text.len() + 20);
        assert!(text.starts_with(head(&text, limit)) && head(&text, limit).len() <= limit);
        assert!(text.ends_with(tail(&text, limit)) && tail(&text, limit).len() <= limit);
        // At most one character is missing from what the limit allows.
        assert!(head(&text, limit).len() + 4 > limit.min(text.len()), "{text:?} at {limit}");
        assert!(tail(&text, limit).len() + 4 > limit.min(text.len()), "{text:?} at {limit}");
        let whole = [None, Some("outputs/あ.txt")][random.below(2)];
        let cut = head_and_tail(&text, limit, whole);
        assert!(cut.len() <= limit, "{text:?} at {limit}: {cut:?}");
        match left_out(&cut) {
            _ if text.len() <= limit => assert_eq!(cut, text),
            None => assert_eq!(cut, head(&text, limit), "no room for the note"),
            Some(missing) => {
                let (first, rest) = cut.split_once("\n[… ").unwrap();
                let last = rest.split_once(" …]\n").unwrap().1;
                assert!(text.starts_with(first) && text.ends_with(last));
                assert_eq!(first.chars().count() + missing + last.chars().count(), text.chars().count());
            }
        }
    }
}

const SECRET: &str = "s3cr/t+Pa$$ wörd";

/// Base64 as others write it: independent of the code under test.
fn base64(bytes: &[u8]) -> String {
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let bits: Vec<bool> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
    let mut text: String = bits
        .chunks(6)
        .map(|six| alphabet[(0..6).fold(0, |value, at| value * 2 + usize::from(*six.get(at).unwrap_or(&false)))])
        .collect();
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

#[test]
fn secrets_are_masked_in_every_form_they_travel_in() {
    let redactor = Redactor::new([SECRET]);
    assert_eq!(redactor.mask(&format!("a {SECRET} b {SECRET}")), "a [secret] b [secret]");
    assert_eq!(redactor.mask("https://u:s3cr%2Ft%2BPa%24%24%20w%C3%B6rd@host/"), "https://u:[secret]@host/");
    assert_eq!(Redactor::new(["a\"quoted\\one"]).mask(r#"{"a":"a\"quoted\\one"}"#), r#"{"a":"[secret]"}"#);
    for user in ["", "u", "us", "use", "user", "x-access-token"] {
        let encoded = base64(format!("{user}:{SECRET}").as_bytes());
        let masked = redactor.mask(&format!("Authorization: Basic {encoded}"));
        assert!(masked.contains("[secret]"), "user {user:?}: {masked}");
        // What is left on both sides holds less than three bytes of the secret.
        let (before, after) = masked.strip_prefix("Authorization: Basic ").unwrap().split_once("[secret]").unwrap();
        assert!(before.len() <= (user.len() + 1).div_ceil(3) * 4 && after.len() <= 4, "user {user:?}: {masked}");
    }
    assert!(redactor.finds_in(SECRET));
    assert!(!redactor.finds_in("nothing here"));
    assert_eq!(redactor.mask("nothing here"), "nothing here");
    assert!(!format!("{redactor:?}").contains(SECRET));
}

#[test]
fn secrets_that_are_plain_letters_in_base64_at_each_place() {
    let redactor = Redactor::new(["ghp_0123456789abcdef"]);
    assert_eq!(base64(b"a:ghp"), "YTpnaHA=", "the test's own base64");
    for padding in 0..3 {
        let text = format!("{}ghp_0123456789abcdef{}", "x".repeat(padding), "y".repeat(padding));
        let encoded = base64(text.as_bytes());
        assert!(redactor.finds_in(&encoded), "{encoded}");
        assert!(redactor.mask(&encoded).len() < encoded.len() - 8, "{}", redactor.mask(&encoded));
    }
}

#[test]
fn short_secrets_and_none_are_left_alone() {
    let redactor = Redactor::new(["short", "", "1234567"]);
    assert_eq!(redactor.mask("short 1234567 text"), "short 1234567 text");
    assert_eq!(Redactor::default().mask("text"), "text");
    assert_eq!(Redactor::new(["12345678"]).mask("12345678"), "[secret]");
}

#[test]
fn secrets_that_overlap_leave_no_rest() {
    // One inside the other, in both orders.
    for secrets in [["password-long", "password"], ["password", "password-long"]] {
        let redactor = Redactor::new(secrets);
        assert_eq!(redactor.mask("x password-long y password z"), "x [secret] y [secret] z");
    }
    // The end of one is the beginning of the other.
    let redactor = Redactor::new(["alphabet-one", "one-two-three"]);
    assert_eq!(redactor.mask("x alphabet-one-two-three y"), "x [secret] y");
    assert_eq!(redactor.mask("alphabet-one one-two-three"), "[secret] [secret]");
    // One that follows itself.
    assert_eq!(Redactor::new(["abcdabcd"]).mask("abcdabcdabcd"), "[secret]");
}

#[test]
fn property_no_secret_survives_masking() {
    let mut random = Random::new(16);
    let pieces = ["aaaa", "bbbb", "あい", "/", "%2F", "\"", "\\", " "];
    for _ in 0..300 {
        let mut word =
            |most: usize| -> String { (0..random.below(most) + 2).map(|_| random.one_of(&pieces)).collect() };
        let secrets: Vec<String> = (0..3).map(|_| word(4)).collect();
        let text = format!("{}{}{}{}{}", word(6), secrets[0], word(3), secrets[1], word(6));
        let redactor = Redactor::new(secrets.iter().map(String::as_str));
        let masked = redactor.mask(&text);
        assert!(!redactor.finds_in(&masked), "{secrets:?} in {text:?}: {masked:?}");
        // Masking what was cut anywhere never panics, and masking twice changes nothing.
        assert_eq!(redactor.mask(&masked), masked);
        for limit in 0..text.len() {
            redactor.mask(head(&text, limit));
            redactor.mask(tail(&text, limit));
        }
    }
}

#[test]
fn what_is_printed_moves_no_cursor_and_starts_no_line() {
    let hostile = "a\x1b[2K\x1b]0;title\x07\r\nb\rc\u{9b}1m\u{202e}d\0\u{2028}e\tあ👩\u{200d}👧\u{7f}\n";
    let shown = printable(hostile);
    assert_eq!(
        shown,
        "a\\u{1b}[2K\\u{1b}]0;title\\u{7}\nb\\rc\\u{9b}1m\\u{202e}d\\u{0}\\u{2028}e\tあ👩\u{200d}👧\\u{7f}\n"
    );
    assert_eq!(printable_line(hostile), shown.replace('\n', " ⏎ "));
    for text in ["", "plain", "あ\tb"] {
        assert!(matches!(printable(text), std::borrow::Cow::Borrowed(same) if same == text));
        assert!(matches!(printable_line(text), std::borrow::Cow::Borrowed(same) if same == text));
    }
}

#[test]
fn property_printable_text_of_any_characters() {
    let mut random = Random::new(4);
    for _ in 0..2000 {
        let text = random.text(40);
        let (many, one) = (printable(&text), printable_line(&text));
        assert!(!many.chars().any(|c| c.is_control() && !"\n\t".contains(c)), "{text:?}: {many:?}");
        assert!(!one.chars().any(|c| c.is_control() && c != '\t'), "{text:?}: {one:?}");
        assert_eq!(printable(&many), many);
        assert_eq!(printable_line(&one), one);
        assert_eq!(many.matches('\n').count(), text.matches('\n').count());
    }
}
