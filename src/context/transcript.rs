//! What happened in a task, in the order in which a person wants to read it: messages with the record
//! of each tool call, summaries and plans at their places, and what cannot be read. Read as it is
//! from a context directory of this program or of its predecessor, also a damaged one, in one pass;
//! memory does not grow with the history.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use super::loose_lines::LooseLines;
use super::transcript_entry::{CallRecord, Entry, PlanEntry, Spoken, SummaryEntry};
use crate::sys::clock;

/// How far ahead the record of a call is looked for when the next one does not fit: so many records
/// may lack their message before the two files are out of step.
const RECORDS_AHEAD: usize = 8;

/// The entries of one context directory.
#[derive(Debug)]
pub struct Transcript {
    dir: PathBuf,
    messages: LooseLines,
    records: LooseLines,
    ahead: VecDeque<CallRecord>,
    summaries: Peekable<LooseLines>,
    plans: Peekable<LooseLines>,
    /// The next message; what belongs before it comes first.
    pending: Option<Box<Spoken>>,
    ready: VecDeque<Entry>,
}

impl Transcript {
    /// The entries of `dir`; none where nothing is there.
    pub fn open(dir: &Path) -> Self {
        Self {
            messages: LooseLines::open(dir, "messages.jsonl"),
            records: LooseLines::open(dir, "tools.jsonl"),
            ahead: VecDeque::new(),
            summaries: LooseLines::open(dir, "summaries.jsonl").peekable(),
            plans: LooseLines::open(dir, "planning.jsonl").peekable(),
            dir: dir.to_path_buf(),
            pending: None,
            ready: VecDeque::new(),
        }
    }

    /// Makes ready one entry that belongs before the pending message, or all that is left when there
    /// is none. `false` where there is no such entry.
    fn catch_up(&mut self) -> bool {
        let until = self.pending.as_ref().map_or(Until::End, |message| Until::time(&message.at));
        let seq = self.pending.as_ref().and_then(|message| message.seq);
        let summary = self.summaries.next_if(|line| {
            let Ok(object) = line else { return true };
            let summary = SummaryEntry::of(object);
            match (summary.through_seq, seq) {
                (Some(through), Some(seq)) => through < seq,
                _ => until.is_after(&summary.at),
            }
        });
        if let Some(line) = summary {
            self.ready.push_back(line.map_or_else(Entry::Damage, |object| SummaryEntry::of(&object).into()));
            return true;
        }
        self.look_ahead(1);
        // A record older than the next message has lost its own: that would have come before. The
        // records after one that was found belong to later messages.
        let found_its_own = self.pending.as_ref().is_some_and(|message| message.record.is_some());
        let lost = self.ahead.pop_front_if(|record| !found_its_own && until.is_after(&record.at));
        let plans_until = lost.as_ref().map_or(until, |record| Until::time(&record.at));
        let plan = self
            .plans
            .next_if(|line| line.as_ref().map_or(true, |object| plans_until.is_after(&PlanEntry::of(object).at)));
        match (plan, lost) {
            (Some(line), lost) => {
                self.ready.push_back(line.map_or_else(Entry::Damage, |object| PlanEntry::of(&object).into()));
                lost.into_iter().for_each(|record| self.ahead.push_front(record));
                true
            }
            (None, Some(record)) => {
                self.ready.push_back(record.into());
                true
            }
            // Looking ahead may have met damage.
            (None, None) => !self.ready.is_empty(),
        }
    }

    fn look_ahead(&mut self, wanted: usize) {
        while self.ahead.len() < wanted
            && let Some(line) = self.records.next()
        {
            match line {
                Ok(object) => self.ahead.push_back(CallRecord::of(&object)),
                Err(damage) => self.ready.push_back(Entry::Damage(damage)),
            }
        }
    }

    /// The record of the call that `message` answers. Records before it have lost their message.
    fn record_of(&mut self, message: &Spoken) -> Option<CallRecord> {
        // Nearly always it is the next one.
        for wanted in [1, RECORDS_AHEAD] {
            self.look_ahead(wanted);
            if let Some(index) = self.ahead.iter().position(|record| record.is_of(message)) {
                self.ready.extend(self.ahead.drain(..index).map(Entry::from));
                return self.ahead.pop_front();
            }
        }
        None
    }
}

/// How far the entries beside the messages may come.
#[derive(Clone, Copy)]
enum Until {
    /// A time in milliseconds; `None` when nobody knows it.
    Time(Option<u64>),
    /// No message is left.
    End,
}

impl Until {
    fn time(at: &Option<String>) -> Self {
        Self::Time(at.as_deref().and_then(clock::parse_time_loosely))
    }

    fn is_after(self, at: &Option<String>) -> bool {
        match (self, Self::time(at)) {
            (Self::End, _) => true,
            (Self::Time(Some(limit_ms)), Self::Time(Some(at_ms))) => at_ms < limit_ms,
            _ => false,
        }
    }
}

impl Iterator for Transcript {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(entry);
            }
            if self.pending.is_some() {
                if !self.catch_up() {
                    self.ready.extend(self.pending.take().map(Entry::Message));
                }
                continue;
            }
            match self.messages.next() {
                Some(Err(damage)) => self.ready.push_back(Entry::Damage(damage)),
                Some(Ok(object)) => {
                    let mut message = Spoken::of(&object);
                    if message.role == "tool" {
                        message.record = self.record_of(&message);
                        let whole = message.seq.map(|seq| format!("outputs/{seq}.txt"));
                        message.output_file = whole.filter(|name| self.dir.join(name).is_file());
                    }
                    self.pending = Some(Box::new(message));
                }
                None if self.catch_up() => {}
                None => return None,
            }
        }
    }
}
