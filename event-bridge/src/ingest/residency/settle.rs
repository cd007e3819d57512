//! Strips: which of their blocks are held, and what can be forgotten.

use kv_routing::target::Tier;

use super::effects::Effects;
use super::group::Group;
use super::strip::StripId;

impl Group {
    /// Brings the blocks of strip `id` and of everything that branches from it in line with the pages on `tier`.
    pub(super) fn settle(&mut self, id: StripId, tier: Tier, effects: &mut Effects<'_>) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            let held = self.is_held(id, tier);
            let Some(strip) = self.strips.get_mut(id) else { continue };
            open.extend_from_slice(&strip.branches);
            let Some(block) = strip.block else { continue };
            if held == strip.is_shown(tier) {
                continue;
            }
            strip.set_shown(tier, held);
            if held {
                effects.show(tier, strip.before, &[block]);
            } else {
                effects.hide(tier, block);
            }
        }
    }

    /// Whether every page of the strip's block is on `tier`.
    fn is_held(&self, id: StripId, tier: Tier) -> bool {
        let Some(strip) = self.strips.get(id) else { return false };
        if strip.block.is_none() || !strip.is_whole(tier) {
            return false;
        }
        let mut base = strip.base;
        while let Some((id, used)) = base {
            let Some(below) = self.strips.get(id) else { return false };
            let is_on = |hash| self.parts.get(hash).is_some_and(|page| page.is_on(tier));
            if !below.is_whole(tier) && !below.pages.iter().take(usize::from(used)).all(is_on) {
                return false;
            }
            base = below.base;
        }
        true
    }

    /// Forgets pages at the strip's end that no tier has and no branch stands on, and with its last page the strip.
    pub(super) fn shrink(&mut self, id: StripId) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let Some(strip) = self.strips.get_mut(id) else { return };
            let used = strip.branches.clone();
            let used = used.iter().filter_map(|branch| self.strips.get(*branch)?.base).map(|(_, pages)| pages).max();
            let Some(strip) = self.strips.get_mut(id) else { return };
            while strip.pages.len() > usize::from(used.unwrap_or(0)) {
                let Some(last) = strip.pages.last() else { break };
                if !self.parts.get(last).is_none_or(|page| page.is_gone()) {
                    break;
                }
                if let Some(hash) = strip.pop() {
                    self.parts.remove(&hash);
                }
            }
            if strip.pages.is_empty() && strip.branches.is_empty() {
                next = self.strips.remove(id).map(|(base, _)| base);
            }
        }
    }
}
