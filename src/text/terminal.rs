//! What a program wrote for a terminal, as the terminal would show it in the end: without colours,
//! titles and links, progress bars at their last state. Knows single lines only; what moves between
//! lines is left out like a colour.

use std::borrow::Cow;

/// `text` without terminal codes; overwritten parts of a line are gone. Other control characters
/// are shown as escapes, so line breaks and tabs are the only ones left. Keeps the number of lines.
pub fn as_displayed(text: &str) -> Cow<'_, str> {
    if !text.contains(|character: char| character.is_control() && !matches!(character, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut row = Row::default();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match Code::begun_by(character, &mut rest) {
            Some(Code::Csi) => row.act(csi(&mut rest)),
            Some(Code::String) => skip_string(&mut rest),
            Some(Code::Single) => {}
            None => match character {
                '\n' => row.break_line(&mut out),
                '\r' => row.at = 0,
                '\u{8}' => row.at = row.at.saturating_sub(1),
                _ if character.is_control() && character != '\t' => {
                    character.escape_default().for_each(|part| row.put(part));
                }
                _ => row.put(character),
            },
        }
    }
    out.extend(row.cells);
    Cow::Owned(out)
}

/// The line being written. One cell a character: good enough for what programs overwrite.
#[derive(Default)]
struct Row {
    cells: Vec<char>,
    at: usize,
}

impl Row {
    fn put(&mut self, character: char) {
        match self.cells.get_mut(self.at) {
            Some(cell) => *cell = character,
            None => self.cells.push(character),
        }
        self.at += 1;
    }

    fn break_line(&mut self, out: &mut String) {
        out.extend(self.cells.drain(..));
        out.push('\n');
        self.at = 0;
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::EraseToEnd => self.cells.truncate(self.at),
            Action::EraseToCursor => self.cells.iter_mut().take(self.at + 1).for_each(|cell| *cell = ' '),
            Action::EraseLine => {
                self.cells.clear();
                self.at = 0;
            }
            // Not beyond what is written: a huge column must not cost memory.
            Action::MoveTo(column) => self.at = column.min(self.cells.len()),
            Action::Nothing => {}
        }
    }
}

/// Kinds of codes (ECMA-48, sections 5.3 to 5.6, 8.3).
enum Code {
    /// Control sequence: parameters, then a final byte.
    Csi,
    /// A text for the terminal: title, link, picture.
    String,
    /// Complete in itself.
    Single,
}

impl Code {
    /// The code that `first` begins; takes what belongs to its beginning from `rest`.
    fn begun_by(first: char, rest: &mut std::str::Chars<'_>) -> Option<Self> {
        match first {
            '\u{9B}' => Some(Self::Csi),
            '\u{90}' | '\u{98}' | '\u{9D}'..='\u{9F}' => Some(Self::String),
            '\u{9C}' => Some(Self::Single),
            '\u{1B}' => {
                let mut after = rest.clone();
                let mut next = after.next()?;
                let code = match next {
                    '[' => Self::Csi,
                    ']' | 'P' | 'X' | '^' | '_' => Self::String,
                    _ => {
                        while matches!(next, ' '..='/') {
                            next = after.next()?;
                        }
                        matches!(next, '0'..='~').then_some(Self::Single)?
                    }
                };
                *rest = after;
                Some(code)
            }
            _ => None,
        }
    }
}

enum Action {
    EraseToEnd,
    EraseToCursor,
    EraseLine,
    MoveTo(usize),
    Nothing,
}

/// Reads a control sequence. A character that fits none ends it and stays.
fn csi(rest: &mut std::str::Chars<'_>) -> Action {
    let parameters = rest.as_str();
    let mut count = 0;
    while let Some(next @ ' '..='~') = rest.clone().next() {
        rest.next();
        if matches!(next, '@'..='~') {
            let number = parameters.get(..count).unwrap_or_default();
            return match (next, number) {
                ('K', "" | "0") => Action::EraseToEnd,
                ('K', "1") => Action::EraseToCursor,
                ('K', "2") => Action::EraseLine,
                ('G', column) => Action::MoveTo(column.parse::<usize>().unwrap_or(1).saturating_sub(1)),
                _ => Action::Nothing,
            };
        }
        count += 1;
    }
    Action::Nothing
}

/// Skips a text for the terminal. One that is not ended ends with its line, so that a cut stream
/// loses no more than that.
fn skip_string(rest: &mut std::str::Chars<'_>) {
    while let Some(next) = rest.clone().next().filter(|next| *next != '\n') {
        if next == '\u{1B}' && !rest.as_str().starts_with("\u{1B}\\") {
            return;
        }
        rest.next();
        match next {
            '\u{1B}' => {
                rest.next();
                return;
            }
            '\u{7}' | '\u{9C}' | '\u{18}' | '\u{1A}' => return,
            _ => {}
        }
    }
}
