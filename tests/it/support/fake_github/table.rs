//! The calls the fake knows: method, path, query parameters and body fields, as GitHub's published
//! description names them. Whatever is not here is a mistake of the client.

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    Me,
    OwnRepos,
    OrgRepos,
    UserRepos,
    Search,
    Repo,
    Issues,
    Issue,
    Comments,
    PostComment,
    GetComment,
    PatchComment,
    ItemLabels,
    AddLabels,
    RemoveLabel,
    RepoLabels,
    CreateLabel,
    GetLabel,
    Events,
    Collaborator,
    AddAssignees,
    Pulls,
    Pull,
    CreatePull,
    PatchPull,
    Reviews,
    ReviewComments,
    RequestReviewers,
    GetRef,
    CreateRef,
    Branches,
    Branch,
}

/// Types of body fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// May be null.
    MaybeText,
    Flag,
    Texts,
    Number,
}

#[derive(Debug)]
pub struct Row {
    pub call: Call,
    pub method: &'static str,
    /// `:` is one segment, a last `*` any number of them.
    pub path: &'static str,
    pub query: &'static [&'static str],
    /// Name, type, required.
    pub body: &'static [(&'static str, Kind, bool)],
}

const NONE: &[&str] = &[];
const PAGED: &[&str] = &["per_page", "page"];
const NO_BODY: &[(&str, Kind, bool)] = &[];

const fn get(call: Call, path: &'static str, query: &'static [&'static str]) -> Row {
    Row { call, method: "GET", path, query, body: NO_BODY }
}

const fn send(
    call: Call,
    method: &'static str,
    path: &'static str,
    body: &'static [(&'static str, Kind, bool)],
) -> Row {
    Row { call, method, path, query: NONE, body }
}

/// Calls outside of a repository.
pub const GLOBAL: &[Row] = &[
    get(Call::Me, "/user", NONE),
    get(Call::OwnRepos, "/user/repos", &["visibility", "affiliation", "type", "sort", "direction", "per_page", "page"]),
    get(Call::OrgRepos, "/orgs/:/repos", &["type", "sort", "direction", "per_page", "page"]),
    get(Call::UserRepos, "/users/:/repos", &["type", "sort", "direction", "per_page", "page"]),
    get(Call::Search, "/search/issues", &["q", "sort", "order", "per_page", "page", "advanced_search"]),
];

/// Calls below `/repos/{owner}/{repo}` or `/repositories/{id}`.
pub const REPOSITORY: &[Row] = &[
    get(Call::Repo, "", NONE),
    get(
        Call::Issues,
        "/issues",
        &["labels", "state", "sort", "direction", "since", "assignee", "creator", "per_page", "page"],
    ),
    get(Call::GetComment, "/issues/comments/:", NONE),
    send(Call::PatchComment, "PATCH", "/issues/comments/:", &[("body", Kind::Text, true)]),
    get(Call::Issue, "/issues/:", NONE),
    get(Call::Comments, "/issues/:/comments", &["since", "per_page", "page"]),
    send(Call::PostComment, "POST", "/issues/:/comments", &[("body", Kind::Text, true)]),
    get(Call::ItemLabels, "/issues/:/labels", PAGED),
    send(Call::AddLabels, "POST", "/issues/:/labels", &[("labels", Kind::Texts, true)]),
    send(Call::RemoveLabel, "DELETE", "/issues/:/labels/:", NO_BODY),
    get(Call::Events, "/issues/:/events", PAGED),
    send(Call::AddAssignees, "POST", "/issues/:/assignees", &[("assignees", Kind::Texts, true)]),
    get(Call::RepoLabels, "/labels", PAGED),
    send(
        Call::CreateLabel,
        "POST",
        "/labels",
        &[("name", Kind::Text, true), ("color", Kind::Text, false), ("description", Kind::MaybeText, false)],
    ),
    get(Call::GetLabel, "/labels/:", NONE),
    get(Call::Collaborator, "/collaborators/:/permission", NONE),
    get(Call::Pulls, "/pulls", &["state", "head", "base", "sort", "direction", "per_page", "page"]),
    send(
        Call::CreatePull,
        "POST",
        "/pulls",
        &[
            ("title", Kind::Text, true),
            ("head", Kind::Text, true),
            ("base", Kind::Text, true),
            ("body", Kind::MaybeText, false),
            ("draft", Kind::Flag, false),
            ("maintainer_can_modify", Kind::Flag, false),
        ],
    ),
    get(Call::Pull, "/pulls/:", NONE),
    send(
        Call::PatchPull,
        "PATCH",
        "/pulls/:",
        &[
            ("title", Kind::Text, false),
            ("body", Kind::MaybeText, false),
            ("state", Kind::Text, false),
            ("base", Kind::Text, false),
            ("maintainer_can_modify", Kind::Flag, false),
        ],
    ),
    get(Call::Reviews, "/pulls/:/reviews", PAGED),
    get(Call::ReviewComments, "/pulls/:/comments", &["sort", "direction", "since", "per_page", "page"]),
    send(
        Call::RequestReviewers,
        "POST",
        "/pulls/:/requested_reviewers",
        &[("reviewers", Kind::Texts, false), ("team_reviewers", Kind::Texts, false)],
    ),
    get(Call::GetRef, "/git/ref/*", NONE),
    send(Call::CreateRef, "POST", "/git/refs", &[("ref", Kind::Text, true), ("sha", Kind::Text, true)]),
    get(Call::Branches, "/branches", &["protected", "per_page", "page"]),
    get(Call::Branch, "/branches/*", NONE),
];

/// The row of a call and what its path names.
pub fn find(rows: &'static [Row], method: &str, segments: &[String]) -> Option<(&'static Row, Vec<String>)> {
    rows.iter().filter(|row| row.method == method).find_map(|row| Some((row, bind(row.path, segments)?)))
}

fn bind(pattern: &str, segments: &[String]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = segments.iter();
    for part in pattern.split('/').skip(1) {
        match part {
            "*" => {
                let tail: Vec<&str> = rest.by_ref().map(String::as_str).collect();
                return (!tail.is_empty()).then(|| names.into_iter().chain([tail.join("/")]).collect());
            }
            ":" => names.push(rest.next()?.clone()),
            word => {
                if rest.next()? != word {
                    return None;
                }
            }
        }
    }
    rest.next().is_none().then_some(names)
}

/// Allowed values of query parameters that have a fixed set.
pub fn allowed(call: Call, name: &str) -> Option<&'static [&'static str]> {
    Some(match (call, name) {
        (_, "direction" | "order") => &["asc", "desc"],
        (Call::Issues | Call::Pulls, "state") => &["open", "closed", "all"],
        (Call::Issues, "sort") => &["created", "updated", "comments"],
        (Call::Pulls, "sort") => &["created", "updated", "popularity", "long-running"],
        (Call::ReviewComments, "sort") => &["created", "updated"],
        (Call::Search, "sort") => &["comments", "reactions", "interactions", "created", "updated"],
        (Call::OrgRepos | Call::UserRepos | Call::OwnRepos, "sort") => &["created", "updated", "pushed", "full_name"],
        (Call::OrgRepos, "type") => &["all", "public", "private", "forks", "sources", "member"],
        (Call::UserRepos, "type") => &["all", "owner", "member"],
        (Call::OwnRepos, "type") => &["all", "owner", "public", "private", "member"],
        (Call::OwnRepos, "visibility") => &["all", "public", "private"],
        (Call::Branches, "protected") | (Call::Search, "advanced_search") => &["true", "false"],
        _ => return None,
    })
}
