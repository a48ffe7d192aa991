//! A recorded model: replies come from a cassette, a file of JSON lines. For `demo`, for tests, and
//! for running a finished task again without a model: its `messages.jsonl` is a cassette, and the
//! `summaries.jsonl` beside it holds the summaries.
//! As strict as a real server about the history it is sent.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::chat::{Usage, check_history};
use crate::error::{Context, Error, Kind, Result};
use crate::ports::{FinishReason, Llm, ModelProfile, RawToolCall, Reply, Request};
use crate::sys::{clock, file};

/// The recorded model.
#[derive(Debug)]
pub struct Replay {
    profile: ModelProfile,
    path: String,
    turns: Vec<Turn>,
    summaries: Vec<Turn>,
}

#[derive(Debug)]
struct Turn {
    /// Errors still to be given before the reply.
    errors: Vec<RecordedError>,
    reply: Reply,
}

/// A line of a cassette; with `"phase":"summary"` it is the reply to a request for a summary, of which
/// all requests for one summary get the same. Unknown fields are ignored, and so are lines of another role than
/// `assistant`, so that the archive of a task can be played.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<LineCall>>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    usage: Option<LineUsage>,
    #[serde(default)]
    error: Option<RecordedError>,
}

#[derive(Deserialize)]
struct LineCall {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<LineFunction>,
}

#[derive(Deserialize)]
struct LineFunction {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct LineUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    cached_tokens: u64,
}

/// A line of `summaries.jsonl`.
#[derive(Deserialize)]
struct SummaryLine {
    summary: String,
}

/// `{"error": {"kind": "later", "message": "…", "retry_after_seconds": 3600, "times": 2}}`: the next
/// line's turn fails so many times first; without `times`, for ever. Kinds: `host`, `later`, `task`, and
/// `overflow` for a request that is too long.
#[derive(Debug, Clone, Deserialize)]
struct RecordedError {
    kind: String,
    message: String,
    #[serde(default)]
    retry_after_seconds: Option<u64>,
    #[serde(default)]
    times: Option<u32>,
}

impl Replay {
    /// Reads the cassette `path`. `context_tokens` is the window the recorded model is said to have.
    ///
    /// # Errors
    /// `Kind::Host` when it cannot be read or a line is no recorded reply.
    pub fn open(path: &Path, context_tokens: u64) -> Result<Self> {
        let what = || format!("cannot read the recorded replies `{}`", path.display());
        let bytes = file::read(path)?.ok_or_else(|| {
            Error::host(format!("{}: there is no such file", what())).hint("set llm.replay.file in the configuration")
        })?;
        let (mut turns, mut summaries) = (Recording::default(), Recording::default());
        for (index, line) in lines(bytes, &what)?.iter().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line: Line = serde_json::from_str(line)
                .context(Kind::Host, || format!("{}: line {} is no reply", what(), index + 1))?;
            if line.role.as_deref().is_some_and(|role| role != "assistant") {
                continue;
            }
            if line.phase.as_deref() == Some("summary") { summaries.add(line) } else { turns.add(line) }
        }
        let beside = path.with_file_name("summaries.jsonl");
        if path.file_name().is_some_and(|name| name == "messages.jsonl")
            && let Some(bytes) = file::read(&beside)?
        {
            let what = || format!("cannot read the recorded summaries `{}`", beside.display());
            for line in lines(bytes, &what)? {
                let line: SummaryLine = serde_json::from_str(&line).context(Kind::Host, what)?;
                summaries.turns.push(Turn { errors: Vec::new(), reply: Reply { content: line.summary, ..nothing() } });
            }
        }
        let model = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            profile: ModelProfile { provider: "replay".into(), model, context_tokens, max_output_tokens: None },
            path: path.display().to_string(),
            turns: turns.end(),
            summaries: summaries.end(),
        })
    }
}

fn lines(bytes: Vec<u8>, what: &dyn Fn() -> String) -> Result<Vec<String>> {
    let text = String::from_utf8(bytes).context(Kind::Host, || format!("{}: it is not UTF-8", what()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Replies of one kind, in the making.
#[derive(Default)]
struct Recording {
    errors: Vec<RecordedError>,
    turns: Vec<Turn>,
}

impl Recording {
    fn add(&mut self, line: Line) {
        match line.error.clone() {
            Some(error) => self.errors.push(error),
            None => self.turns.push(Turn { errors: std::mem::take(&mut self.errors), reply: reply_of(line) }),
        }
    }

    fn end(mut self) -> Vec<Turn> {
        if !self.errors.is_empty() {
            self.turns.push(Turn { errors: self.errors, reply: nothing() });
        }
        self.turns
    }
}

fn nothing() -> Reply {
    Reply { content: String::new(), tool_calls: Vec::new(), reasoning: None, finish: FinishReason::Ended, usage: None }
}

impl Llm for Replay {
    fn model(&self) -> &ModelProfile {
        &self.profile
    }

    fn probe(&mut self) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, request: &Request<'_>) -> Result<Reply> {
        check_history(request.messages).map_err(|broken| Error::bug(format!("the history is not valid: {broken}")))?;
        // By the task's turn and not by our own count: a resumed task goes on where it was.
        let (turns, what) = match request.phase {
            "summary" => (&mut self.summaries, "summaries"),
            _ => (&mut self.turns, "turns"),
        };
        let known = turns.len();
        let turn = usize::try_from(request.turn)
            .ok()
            .and_then(|turn| turns.get_mut(turn))
            .ok_or_else(|| Error::task(format!("the recorded replies in `{}` end after {known} {what}", self.path)))?;
        let Some(error) = turn.errors.first_mut() else { return Ok(turn.reply.clone()) };
        let given = error.clone();
        if let Some(times) = &mut error.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                turn.errors.remove(0);
            }
        }
        let kind = match given.kind.as_str() {
            "host" => Kind::Host,
            "task" | "overflow" => Kind::Task,
            _ => Kind::Later,
        };
        let error = Error::new(kind, given.message);
        let error = if given.kind == "overflow" { error.too_large() } else { error };
        Err(match given.retry_after_seconds {
            Some(seconds) => error.until(clock::now_ms() + seconds * 1000),
            None => error,
        })
    }
}

fn reply_of(line: Line) -> Reply {
    Reply {
        content: line.content.unwrap_or_default(),
        tool_calls: line
            .tool_calls
            .unwrap_or_default()
            .into_iter()
            .map(|call| {
                let (name, arguments) =
                    call.function.map_or((None, None), |function| (function.name, function.arguments));
                RawToolCall { id: call.id, name, arguments, extra: None }
            })
            .collect(),
        reasoning: None,
        finish: if line.finish_reason.as_deref() == Some("length") {
            FinishReason::Length
        } else {
            FinishReason::Ended
        },
        usage: line.usage.map(|usage| Usage {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            cached_tokens: usage.cached_tokens,
        }),
    }
}
