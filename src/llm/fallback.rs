//! A model in place of another, which takes over when the first turns out to be of no use.

use crate::error::{Kind, Result};
use crate::ports::{Llm, ModelProfile, Reply, Request};

/// `own` as long as it can be used at all, then `base`. Trouble that passes is not a reason to change:
/// whoever named a model of his own did not mean another one to be paid for.
pub struct Fallback<'a, L> {
    own: L,
    base: &'a mut dyn Llm,
    is_own_usable: bool,
}

impl<'a, L: Llm> Fallback<'a, L> {
    /// Asks `own`; `base` is known to work.
    pub fn new(own: L, base: &'a mut dyn Llm) -> Self {
        Self { own, base, is_own_usable: true }
    }
}

impl<L: Llm> Llm for Fallback<'_, L> {
    fn model(&self) -> &ModelProfile {
        if self.is_own_usable { self.own.model() } else { self.base.model() }
    }

    fn probe(&mut self) -> Result<()> {
        if self.is_own_usable { self.own.probe() } else { self.base.probe() }
    }

    fn complete(&mut self, request: &Request<'_>) -> Result<Reply> {
        if self.is_own_usable {
            match self.own.complete(request) {
                Err(error) if error.kind() == Kind::Host => {
                    let model = &self.own.model().model;
                    log::warn!("the model `{model}` of the user cannot be used, the base model goes on: {error}");
                    self.is_own_usable = false;
                }
                done => return done,
            }
        }
        self.base.complete(request)
    }
}

impl<L: Llm> std::fmt::Debug for Fallback<'_, L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fallback {{ model: {:?}, is_own_usable: {} }}", self.model(), self.is_own_usable)
    }
}
