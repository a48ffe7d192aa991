//! User messages in a row become one on the wire: the templates of many local models refuse two.

use std::borrow::Cow;

use crate::chat::{Message, Role};

/// The history with neighbouring user messages joined; as it is where there are none.
pub fn alternating(messages: &[Message]) -> Cow<'_, [Message]> {
    let is_user = |message: &Message| message.role == Role::User;
    if !messages.windows(2).any(|pair| pair.iter().all(is_user)) {
        return Cow::Borrowed(messages);
    }
    let mut joined: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        match joined.last_mut().filter(|last| is_user(last) && is_user(message)) {
            Some(last) => {
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            None => joined.push(message.clone()),
        }
    }
    Cow::Owned(joined)
}
