//! What a VM remembers between prompts. Every cache is bounded and holds only what tokenizing again would give.

mod word;

pub(crate) use word::WordCache;
