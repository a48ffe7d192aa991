//! Files of JSON lines read as they are, for looking at them: a bad line becomes a value and the rest
//! goes on, nothing is repaired, and memory does not grow with the file. The strict reader, which the
//! loop goes by, is `jsonl`.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use serde_json::{Map, Value};

/// A longer line is none of ours; it is passed over.
const LONGEST_LINE_BYTES: usize = 8 << 20;
/// A larger file that is read whole is none of ours.
const LARGEST_FILE_BYTES: u64 = 8 << 20;

/// Something that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Name of the file in the context directory.
    pub file: String,
    /// First and last line of it, counted from 1; `None` where it is the file as a whole.
    pub lines: Option<(u64, u64)>,
    /// What is wrong, as the end of a sentence.
    pub problem: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.lines {
            Some((first, last)) if first == last => write!(f, "line {first} of {} cannot be read", self.file)?,
            Some((first, last)) => write!(f, "lines {first} to {last} of {} cannot be read", self.file)?,
            None => write!(f, "{} cannot be read", self.file)?,
        }
        write!(f, ": {}", self.problem)
    }
}

impl Damage {
    /// A file that cannot be read as a whole.
    pub fn of_file(file: &str, problem: impl Into<String>) -> Self {
        Self { file: file.to_owned(), lines: None, problem: problem.into() }
    }
}

/// The objects of one file of JSON lines, in its order.
#[derive(Debug)]
pub struct LooseLines {
    name: &'static str,
    reader: Option<BufReader<File>>,
    line: Vec<u8>,
    number: u64,
    damage: Option<Damage>,
    good: Option<Map<String, Value>>,
}

impl LooseLines {
    /// The lines of the file `name` in `dir`; none where it is missing.
    pub fn open(dir: &Path, name: &'static str) -> Self {
        let (reader, damage) = match open(dir, name) {
            Ok(file) => (file.map(|file| BufReader::with_capacity(1 << 16, file)), None),
            Err(damage) => (None, Some(damage)),
        };
        Self { name, reader, line: Vec::new(), number: 0, damage, good: None }
    }

    /// Notes a bad line; bad lines in a row are one damage, so a file of garbage is told in one line.
    fn note(&mut self, problem: String) {
        match &mut self.damage {
            Some(Damage { lines: Some((_, last)), .. }) => *last = self.number,
            _ => {
                let lines = Some((self.number, self.number));
                self.damage = Some(Damage { file: self.name.to_owned(), lines, problem });
            }
        }
    }

    /// Reads one line, of which at most so many bytes are kept. `None` at the end, else whether it
    /// was kept whole and whether it has an end.
    fn read_line(&mut self) -> Option<std::io::Result<(bool, bool)>> {
        self.line.clear();
        let reader = self.reader.as_mut()?;
        let mut whole = true;
        loop {
            let available = match reader.fill_buf() {
                Ok(available) => available,
                Err(source) if source.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(source) => return Some(Err(source)),
            };
            if available.is_empty() {
                return (!self.line.is_empty()).then_some(Ok((whole, false)));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            let room = LONGEST_LINE_BYTES - self.line.len();
            whole = whole && part.len() <= room;
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            reader.consume(used);
            if end.is_some() {
                return Some(Ok((whole, true)));
            }
        }
    }

    fn parsed(&self, whole: bool, ended: bool) -> Result<Map<String, Value>, String> {
        if !whole {
            return Err(format!("it is longer than {} MiB", LONGEST_LINE_BYTES >> 20));
        }
        // A power cut can leave blocks of zeros before what was written after it.
        let zeros = self.line.iter().take_while(|byte| **byte == 0).count();
        let text = String::from_utf8_lossy(&self.line[zeros..]);
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Object(object)) => Ok(object),
            Ok(_) => Err("it is JSON, but no object".into()),
            Err(_) if text.is_empty() => Err("it holds zero bytes only".into()),
            Err(_) if !ended => Err("it is torn off".into()),
            Err(error) => Err(format!("it is no JSON from column {} on", error.column())),
        }
    }
}

impl Iterator for LooseLines {
    type Item = Result<Map<String, Value>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(good) = self.good.take() {
                return Some(Ok(good));
            }
            let read = self.read_line();
            self.number += u64::from(read.is_some());
            match read {
                None => return self.damage.take().map(Err),
                Some(Err(source)) => {
                    self.note(format!("the disk says: {}", source.kind()));
                    self.reader = None;
                }
                Some(Ok((whole, ended))) => {
                    if whole && self.line.trim_ascii().is_empty() {
                        continue;
                    }
                    match self.parsed(whole, ended) {
                        Ok(object) => {
                            self.good = Some(object);
                            if let Some(damage) = self.damage.take() {
                                return Some(Err(damage));
                            }
                        }
                        Err(problem) => self.note(problem),
                    }
                }
            }
        }
    }
}

/// Opens a regular file; anything else could block or never end.
fn open(dir: &Path, name: &str) -> Result<Option<File>, Damage> {
    let path = dir.join(name);
    match std::fs::metadata(&path) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Ok(metadata) if !metadata.is_file() => Err(Damage::of_file(name, "it is no regular file")),
        Ok(_) => File::open(&path).map(Some).map_err(|source| Damage::of_file(name, source.kind().to_string())),
        Err(source) => Err(Damage::of_file(name, source.kind().to_string())),
    }
}

/// The text of a small file, mended where it is no UTF-8; `None` where there is none.
///
/// # Errors
/// What is wrong with it.
pub fn text_of_file(dir: &Path, name: &str) -> Result<Option<String>, Damage> {
    let Some(file) = open(dir, name)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| Damage::of_file(name, source.kind().to_string()))?;
    if bytes.len() as u64 > LARGEST_FILE_BYTES {
        return Err(Damage::of_file(name, format!("it is larger than {} MiB", LARGEST_FILE_BYTES >> 20)));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The object a small file holds; `None` where there is no file.
///
/// # Errors
/// What is wrong with it.
pub fn object_of_file(dir: &Path, name: &str) -> Result<Option<Map<String, Value>>, Damage> {
    let Some(text) = text_of_file(dir, name)? else { return Ok(None) };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(Damage::of_file(name, "it is JSON, but no object")),
        Err(_) => Err(Damage::of_file(name, "it is no JSON")),
    }
}

/// A field as text, whatever it is; `None` where it is missing or null.
pub fn text_at(object: &Map<String, Value>, name: &str) -> Option<String> {
    match object.get(name)? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A field as a number that is not negative, also when it stands there as text.
pub fn number_at(object: &Map<String, Value>, name: &str) -> Option<u64> {
    match object.get(name)? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A field as a list of texts; a single text is a list of one.
pub fn texts_at(object: &Map<String, Value>, name: &str) -> Vec<String> {
    match object.get(name) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => {
            values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect()
        }
        Some(other) => vec![other.as_str().map_or_else(|| other.to_string(), str::to_owned)],
    }
}
