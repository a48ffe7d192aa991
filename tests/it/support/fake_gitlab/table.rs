//! The calls the fake knows: method, path, query parameters and body fields, as GitLab documents
//! them. Whatever is not here is a mistake of the client.

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Me,
    Users,
    Projects,
    Group,
    Items,
    Project,
    Item,
    PutItem,
    Notes,
    PostNote,
    Note,
    PutNote,
    Discussions,
    LabelEvents,
    CreateRequest,
    Member,
    Label,
    OwnToken,
    Branches,
    Branch,
    CreateBranch,
}

/// Types of body fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Text,
    Flag,
    Numbers,
}

#[derive(Debug)]
pub struct Row {
    pub call: Call,
    pub method: &'static str,
    /// `:` is one segment.
    pub path: &'static str,
    pub query: &'static [&'static str],
    /// Name, type, required.
    pub body: &'static [(&'static str, Type, bool)],
}

const NONE: &[&str] = &[];
const PAGED: &[&str] = &["per_page", "page"];
const LIST: &[&str] = &[
    "state",
    "labels",
    "scope",
    "assignee_username",
    "assignee_id",
    "author_username",
    "search",
    "order_by",
    "sort",
    "updated_after",
    "source_branch",
    "target_branch",
    "per_page",
    "page",
];
const NOTES: &[&str] = &["sort", "order_by", "per_page", "page"];
const BODY: &[(&str, Type, bool)] = &[("body", Type::Text, true)];
const PUT: &[(&str, Type, bool)] = &[
    ("title", Type::Text, false),
    ("description", Type::Text, false),
    ("add_labels", Type::Text, false),
    ("remove_labels", Type::Text, false),
    ("state_event", Type::Text, false),
    ("assignee_ids", Type::Numbers, false),
    ("reviewer_ids", Type::Numbers, false),
];

const fn get(call: Call, path: &'static str, query: &'static [&'static str]) -> Row {
    Row { call, method: "GET", path, query, body: &[] }
}

const fn send(
    call: Call,
    method: &'static str,
    path: &'static str,
    body: &'static [(&'static str, Type, bool)],
) -> Row {
    Row { call, method, path, query: NONE, body }
}

/// Calls outside of a project; items are `issues` or `merge_requests`.
pub const GLOBAL: &[Row] = &[
    get(Call::Me, "/user", NONE),
    get(Call::Users, "/users", &["username", "per_page", "page"]),
    get(
        Call::Projects,
        "/projects",
        &["membership", "min_access_level", "archived", "simple", "order_by", "sort", "search", "per_page", "page"],
    ),
    get(Call::OwnToken, "/personal_access_tokens/self", NONE),
    get(Call::Group, "/groups/:", NONE),
    get(Call::Items, "/@", LIST),
    get(Call::Items, "/groups/:/@", LIST),
];

/// Calls below `/projects/:id`; `@` stands for `issues` or `merge_requests`.
pub const PROJECT: &[Row] = &[
    get(Call::Project, "", NONE),
    get(Call::Items, "/@", LIST),
    get(Call::Item, "/@/:", NONE),
    send(Call::PutItem, "PUT", "/@/:", PUT),
    get(Call::Notes, "/@/:/notes", NOTES),
    send(Call::PostNote, "POST", "/@/:/notes", BODY),
    get(Call::Note, "/@/:/notes/:", NONE),
    send(Call::PutNote, "PUT", "/@/:/notes/:", BODY),
    get(Call::Discussions, "/@/:/discussions", PAGED),
    get(Call::LabelEvents, "/@/:/resource_label_events", PAGED),
    send(
        Call::CreateRequest,
        "POST",
        "/merge_requests",
        &[
            ("source_branch", Type::Text, true),
            ("target_branch", Type::Text, true),
            ("title", Type::Text, true),
            ("description", Type::Text, false),
            ("labels", Type::Text, false),
            ("assignee_ids", Type::Numbers, false),
            ("reviewer_ids", Type::Numbers, false),
            ("allow_collaboration", Type::Flag, false),
        ],
    ),
    get(Call::Member, "/members/all/:", NONE),
    get(Call::Label, "/labels/:", &["include_ancestor_groups"]),
    get(Call::Branches, "/repository/branches", &["search", "per_page", "page"]),
    get(Call::Branch, "/repository/branches/:", NONE),
    send(
        Call::CreateBranch,
        "POST",
        "/repository/branches",
        &[("branch", Type::Text, true), ("ref", Type::Text, true)],
    ),
];

/// The row that fits, and the segments its wildcards stand for.
pub fn find(rows: &'static [Row], method: &str, segments: &[String]) -> Option<(&'static Row, Vec<String>)> {
    rows.iter().filter(|row| row.method == method).find_map(|row| Some((row, bind(row.path, segments)?)))
}

fn bind(pattern: &str, segments: &[String]) -> Option<Vec<String>> {
    let parts: Vec<&str> = pattern.split('/').skip(1).collect();
    if parts.len() != segments.len() {
        return None;
    }
    let mut names = Vec::new();
    for (part, segment) in parts.iter().zip(segments) {
        match *part {
            ":" => names.push(segment.clone()),
            "@" if ["issues", "merge_requests"].contains(&segment.as_str()) => names.push(segment.clone()),
            word if word == segment => {}
            _ => return None,
        }
    }
    Some(names)
}

/// Values of query parameters that have a fixed set.
pub fn allowed(call: Call, name: &str) -> Option<&'static [&'static str]> {
    Some(match (call, name) {
        (_, "sort") => &["asc", "desc"],
        (Call::Items, "state") => &["opened", "closed", "locked", "merged", "all"],
        (Call::Items, "scope") => &["all", "created_by_me", "assigned_to_me"],
        (Call::Items, "order_by") => &["created_at", "updated_at", "title"],
        (Call::Notes, "order_by") => &["created_at", "updated_at"],
        (Call::Projects, "membership" | "archived" | "simple") => &["true", "false"],
        (Call::Projects, "min_access_level") => &["10", "20", "30", "40", "50"],
        _ => return None,
    })
}
