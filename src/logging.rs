//! The log: everything to a file that rotates, warnings also to stderr; secrets masked in both.
//! Silent on success, since cron mails what is printed.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use env_logger::{Builder, Logger, Target};
use log::{LevelFilter, Log, Metadata, Record};

use crate::error::{Context, Kind, Result};
use crate::sys::{clock, file, lock};
use crate::text::{Redactor, head_and_tail, printable_line};

/// A larger log file is put aside.
const ROTATE_AT_BYTES: u64 = 10 << 20;
/// More of one record helps nobody and pushes the others out.
const LONGEST_RECORD_BYTES: usize = 16 << 10;
/// Old files kept beside the current one: three in all.
const OLD_FILES: u32 = 2;

/// What goes where.
#[derive(Debug)]
pub struct LogSettings<'a> {
    /// The log file.
    pub path: &'a Path,
    /// Debug lines too.
    pub debug: bool,
    /// Progress on stderr too, for a person who watches.
    pub verbose: bool,
}

/// Starts logging for the process.
///
/// # Errors
/// `Kind::Host` when the log file cannot be opened.
pub fn start(settings: &LogSettings<'_>, redactor: &Redactor) -> Result<()> {
    if let Some(parent) = settings.path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        file::create_dir(parent)?;
    }
    let rotating = RotatingFile::open(settings.path)?;
    let file_level = if settings.debug { LevelFilter::Debug } else { LevelFilter::Info };
    let stderr_level = if settings.verbose { file_level } else { LevelFilter::Warn };
    let both = Both {
        file: logger(file_level, Target::Pipe(Box::new(rotating)), redactor.clone(), true),
        stderr: logger(stderr_level, Target::Stderr, redactor.clone(), false),
    };
    log::set_max_level(file_level);
    log::set_boxed_logger(Box::new(both)).context(Kind::Bug, || "logging was started twice".into())
}

fn logger(level: LevelFilter, target: Target, redactor: Redactor, with_time: bool) -> Logger {
    let mut builder = Builder::new();
    builder.filter_level(level).target(target);
    builder.format(move |out, record| {
        let text = redactor.mask(&record.args().to_string());
        // One record, one line: a text from outside must not be able to fake a second one.
        let text = head_and_tail(&text, LONGEST_RECORD_BYTES, None);
        // An error's hint has a line of its own elsewhere.
        let text = text.replace("\nhint: ", "; hint: ");
        let text = printable_line(&text);
        let level = record.level().as_str().to_lowercase();
        if with_time {
            writeln!(out, "{} {level:<5} [{}] {text}", clock::now_rfc3339(), std::process::id())
        } else if record.level() <= log::Level::Warn {
            writeln!(out, "coding-agent: {level}: {text}")
        } else {
            writeln!(out, "{text}")
        }
    });
    builder.build()
}

struct Both {
    file: Logger,
    stderr: Logger,
}

impl Log for Both {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.file.enabled(metadata) || self.stderr.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        self.file.log(record);
        self.stderr.log(record);
    }

    fn flush(&self) {
        self.file.flush();
    }
}

/// The log file, shared by all processes of the installation: each line is one append.
struct RotatingFile {
    path: PathBuf,
    opened: File,
    size_bytes: u64,
}

impl RotatingFile {
    fn open(path: &Path) -> Result<Self> {
        let opened = append_to(path).map_err(|source| file::error("open the log file", path, source))?;
        let size_bytes = opened.metadata().map_or(0, |metadata| metadata.len());
        Ok(Self { path: path.to_path_buf(), opened, size_bytes })
    }

    fn rotate(&mut self) -> std::io::Result<()> {
        // The lock is on the file that is to be put aside: who finds another one there was too late.
        if lock::try_lock(&self.opened)? {
            let is_current = std::fs::metadata(&self.path).is_ok_and(|there| {
                self.opened.metadata().is_ok_and(|ours| ours.ino() == there.ino() && ours.dev() == there.dev())
            });
            if is_current {
                file::rotate(&self.path, OLD_FILES).map_err(std::io::Error::other)?;
            }
        }
        self.opened = append_to(&self.path)?;
        self.size_bytes = self.opened.metadata()?.len();
        Ok(())
    }
}

impl Write for RotatingFile {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self.size_bytes >= ROTATE_AT_BYTES {
            self.rotate()?;
        }
        self.opened.write_all(line)?;
        self.size_bytes += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.opened.flush()
    }
}

fn append_to(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
