//! Calls on notes, discussions and label events.

use serde_json::json;

use super::super::fake_forge::wire::Reply;
use super::door::{Answer, Asked, not_found, refuse};
use super::items::{LONGEST_TEXT, watch_commands};
use super::page;
use super::state::{GUEST, Hub, Note};
use super::table::Call;

/// Whether the asker sees the note: internal ones are for members from Reporter on.
fn is_seen(hub: &Hub, asked: &Asked<'_>, note: &Note) -> bool {
    !note.internal || hub.projects[asked.project].role(&asked.who) >= super::state::REPORTER
}

pub fn list(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let (project, item) = asked.item(hub)?;
    let mut notes: Vec<&Note> = item.notes.iter().filter(|note| is_seen(hub, asked, note)).collect();
    if asked.row.call == Call::Discussions {
        return Ok(page::reply(hub, asked, &notes, |note| {
            let single = note.position.is_none();
            let mut shown = hub.note_json(project, item, note);
            if !single {
                shown["resolved"] = false.into();
            }
            json!({"id": format!("{:040x}", note.id), "individual_note": single, "notes": [shown]})
        }));
    }
    match asked.param("order_by").unwrap_or("created_at") {
        "updated_at" => notes.sort_by_key(|note| (note.updated, note.id)),
        _ => notes.sort_by_key(|note| (note.created, note.id)),
    }
    // The newest first, unless asked otherwise.
    if asked.param("sort").unwrap_or("desc") == "desc" {
        notes.reverse();
    }
    Ok(page::reply(hub, asked, &notes, |note| hub.note_json(project, item, note)))
}

pub fn events(hub: &Hub, asked: &Asked<'_>) -> Answer {
    let (_, item) = asked.item(hub)?;
    Ok(page::reply(hub, asked, &item.label_events, |event| hub.event_json(item, event)))
}

fn check(hub: &Hub, body: &str) -> Result<(), Reply> {
    let problem = if body.chars().count() > LONGEST_TEXT {
        "is too long (maximum is 1000000 characters)"
    } else if body.trim().is_empty() && !hub.blank_notes {
        "can't be blank"
    } else {
        return Ok(());
    };
    Err(refuse(400, &format!("400 Bad request - Note {{:note=>[\"{problem}\"]}}")))
}

pub fn post(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let (project, item) = asked.item(hub)?;
    let (kind, iid) = (item.kind, item.iid);
    if item.locked {
        return Err(refuse(403, "403 Forbidden"));
    }
    asked.need(project, if project.public { 0 } else { GUEST })?;
    let body = asked.text("body").unwrap_or_default().to_owned();
    check(hub, &body)?;
    watch_commands(hub, asked, &body);
    let id = hub.say(asked.project, kind, iid, &body, &asked.who);
    show(hub, asked, id, 201)
}

pub fn one(hub: &mut Hub, asked: &Asked<'_>) -> Answer {
    let id = asked.names[2].parse().unwrap_or(0);
    let (_, item) = asked.item(hub)?;
    let (kind, iid) = (item.kind, item.iid);
    let note = item.notes.iter().find(|note| note.id == id).ok_or_else(|| not_found("Note "))?;
    if asked.row.call == Call::PutNote {
        if note.author != asked.who {
            return Err(refuse(403, "403 Forbidden"));
        }
        let body = asked.text("body").unwrap_or_default().to_owned();
        check(hub, &body)?;
        watch_commands(hub, asked, &body);
        let now = hub.tick();
        let item = hub.projects[asked.project].item_mut(kind, iid).expect("looked up before");
        let note = item.notes.iter_mut().find(|note| note.id == id).expect("looked up before");
        (note.body, note.updated) = (body, now);
    }
    show(hub, asked, id, 200)
}

fn show(hub: &Hub, asked: &Asked<'_>, id: u64, status: u16) -> Answer {
    let (project, item) = asked.item(hub)?;
    let note = item.notes.iter().find(|note| note.id == id).ok_or_else(|| not_found("Note "))?;
    Ok(Reply::json(status, &hub.note_json(project, item, note)))
}
