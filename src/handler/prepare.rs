//! The first thing people see: the bot label becomes the processing label.

use crate::error::{Kind, Result};
use crate::ports::{Forge, Item, ItemState};
use crate::task::Labels;

/// Whether an item asks for work now: open and with the bot label.
pub fn is_wanted(item: &Item, labels: &Labels) -> bool {
    item.state == ItemState::Open && item.has_label(&labels.bot)
}

/// Takes the item in hand: processing label on, bot label and the marks of an earlier task off.
/// `false` when the forge refuses for good. May be repeated.
///
/// # Errors
/// Passing trouble, and what concerns every item.
pub fn prepare(forge: &dyn Forge, labels: &Labels, item: &Item) -> Result<bool> {
    let earlier = [&labels.done, &labels.failed, &labels.paused, &labels.stopped];
    // Added first: at no instant does the item look as if nobody had it.
    let steps = || -> Result<()> {
        forge.add_label(&item.key, &labels.processing)?;
        for label in earlier.into_iter().chain([&labels.bot]) {
            if item.has_label(label) {
                forge.remove_label(&item.key, label)?;
            }
        }
        Ok(())
    };
    match steps() {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == Kind::Task => {
            log::warn!("{} is left alone, its labels cannot be changed: {error:#}", item.key);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
