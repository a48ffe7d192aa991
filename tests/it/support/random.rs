//! Random numbers that are the same in every run.

/// SplitMix64: small, and good enough to choose test inputs.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    /// One of them.
    pub fn one_of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    /// A text of fewer than `most` pieces: any characters, and those that something acts on.
    pub fn text(&mut self, most: usize) -> String {
        let mut text = String::new();
        for _ in 0..self.below(most) {
            match self.below(6) {
                // Every plane, controls included; halves of pairs are no characters.
                0 => text.extend(char::from_u32(u32::try_from(self.below(0x11_0000)).unwrap())),
                1 => text.extend(char::from_u32(u32::try_from(self.below(0x100)).unwrap())),
                _ => text.push_str(self.one_of(PIECES)),
            }
        }
        text
    }
}

/// What terminals, forges, Markdown and HTML act on, and characters of every width.
const PIECES: &[&str] = &[
    "a",
    " ",
    "\n",
    "\n\n",
    "\r",
    "\r\n",
    "\t",
    "\0",
    "\u{8}",
    "\x1b",
    "\x1b[",
    "\x1b[2K",
    "\x1b[31m",
    "\x1b]0;",
    "\x1b\\",
    "\x07",
    "\x1bP",
    "\u{9b}",
    "\u{9d}",
    "\u{9c}",
    "\u{85}",
    "\u{2028}",
    "\u{202e}",
    "\u{200b}",
    "\u{200d}",
    "\u{feff}",
    "\u{fffd}",
    "\u{301}",
    "é",
    "あ",
    "🔴",
    "👩\u{200d}👧",
    "`",
    "```",
    "````\n",
    "\n```rust\n",
    "\n~~~\n",
    "\n> ",
    "> ```\n",
    "    ",
    "- ",
    "#",
    "#1",
    "@bob",
    "!1",
    "GH-1",
    "closes #2",
    "/issues/3",
    "<",
    ">",
    "<!--",
    "-->",
    "<img src=x>",
    "</details>",
    "![x](http://y)",
    "[a]: http://b",
    "data:image/png;base64,",
    "AAAA",
    "$(id)",
    "\\",
    "&lt;",
    "{{facts}}",
];
