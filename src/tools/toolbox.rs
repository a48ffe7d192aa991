//! The tools of one task: built when it begins, dropped with it. Maps unique wire names to servers
//! and back; nothing is ever split at `_`.

use std::collections::HashMap;

use crate::chat::Arguments;
use crate::ports::{ToolResult, ToolServer, ToolSpec, Trouble};

/// Longest wire name OpenAI accepts.
const LONGEST_NAME: usize = 64;

/// All tools on offer in one task.
#[derive(Default)]
pub struct Toolbox {
    servers: Vec<Box<dyn ToolServer>>,
    specs: Vec<ToolSpec>,
    places: HashMap<String, Place>,
}

struct Place {
    server: usize,
    tool: String,
}

impl Toolbox {
    /// An empty toolbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a server with all its tools, named `<server>_<tool>` in `[A-Za-z0-9_-]{1,64}`.
    pub fn add(&mut self, server: Box<dyn ToolServer>) {
        for tool in server.tools() {
            let wire_name = self.unique_name(&format!("{}_{}", server.name(), tool.wire_name));
            self.places.insert(wire_name.clone(), Place { server: self.servers.len(), tool: tool.wire_name.clone() });
            self.specs.push(ToolSpec { wire_name, ..tool });
        }
        self.servers.push(server);
    }

    /// Adds a tool that the loop itself answers, under its bare name.
    pub fn add_spec(&mut self, spec: ToolSpec) {
        self.specs.push(spec);
    }

    /// The tools as the model sees them, in the order they were added.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    /// The name `server/tool` of a tool, for models that call tools in text; a name that is not on
    /// offer stays as it is.
    pub fn slash_name(&self, wire_name: &str) -> String {
        match self.places.get(wire_name) {
            Some(place) => format!("{}/{}", self.servers[place.server].name(), place.tool),
            None => wire_name.to_owned(),
        }
    }

    /// The wire name of a tool that was called by either of its names.
    pub fn wire_name(&self, name: &str) -> Option<&str> {
        let mut names = self.specs.iter().map(|spec| spec.wire_name.as_str());
        names.find(|wire_name| *wire_name == name || self.slash_name(wire_name) == name)
    }

    /// Runs a tool. A name that is not on offer is a failure that lists those that are.
    pub fn call(&mut self, wire_name: &str, arguments: &Arguments) -> ToolResult {
        match self.places.get(wire_name) {
            Some(place) => self.servers[place.server].call(&place.tool, arguments),
            None => self.unknown(wire_name),
        }
    }

    /// The servers that cannot be used, or not any more: name and reason.
    pub fn troubles(&self) -> Vec<(&str, Trouble)> {
        self.servers.iter().filter_map(|server| Some((server.name(), server.trouble()?))).collect()
    }

    /// The failure for a tool that is not on offer.
    pub fn unknown(&self, wire_name: &str) -> ToolResult {
        let names: Vec<&str> = self.specs.iter().map(|spec| spec.wire_name.as_str()).collect();
        let asked = crate::text::head(wire_name, LONGEST_NAME);
        // An earlier run of the task may have had it.
        let gone = self.troubles().into_iter().find(|(server, _)| {
            asked.starts_with(&clean_name(&format!("{server}_"))) || asked.starts_with(&format!("{server}/"))
        });
        let gone = gone.map(|(server, trouble)| format!("The server `{server}` is not available: {}. ", trouble.why));
        ToolResult::error(format!(
            "There is no tool `{asked}`. {}The tools are: {}.",
            gone.unwrap_or_default(),
            names.join(", ")
        ))
    }

    fn unique_name(&self, wanted: &str) -> String {
        let clean = clean_name(wanted);
        let mut name = clean.clone();
        let mut number = 2;
        while self.places.contains_key(&name) {
            let suffix = format!("_{number}");
            name = clean.chars().take(LONGEST_NAME - suffix.len()).collect::<String>() + &suffix;
            number += 1;
        }
        name
    }
}

/// `wanted` as far as OpenAI takes it as a name.
fn clean_name(wanted: &str) -> String {
    let is_fine = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    wanted.chars().map(|character| if is_fine(character) { character } else { '_' }).take(LONGEST_NAME).collect()
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.specs.iter().map(|spec| &spec.wire_name)).finish()
    }
}
