//! Which requests of a trace belong to one conversation, where the trace does not say.
//!
//! The next turn of a chat begins with everything said so far. So a request continues the conversation whose latest prompt it begins
//! with, in full blocks, the longest such prompt; a conversation is continued once, and what branches off an older turn is another one.
//! Blocks that every prompt begins with are a common system prompt, and name no conversation.

use std::collections::HashMap;

use kv_routing::block::SequenceHash;

/// A number for each request's conversation, given the chains of all prompts in order of arrival.
pub(super) fn derive(chains: &[&[SequenceHash]]) -> Vec<u64> {
    let common = common(chains);
    let mut latest: HashMap<SequenceHash, u64> = HashMap::new();
    let mut next = 0;
    let conversation = |chain: &&[SequenceHash]| {
        let own = chain.get(common..).unwrap_or_default();
        let number = own.iter().rev().find_map(|end| latest.remove(end)).unwrap_or_else(|| {
            next += 1;
            next
        });
        if let Some(end) = own.last() {
            latest.insert(*end, number);
        }
        number
    };
    chains.iter().map(conversation).collect()
}

/// Leading blocks that all chains share.
fn common(chains: &[&[SequenceHash]]) -> usize {
    let mut chains = chains.iter().filter(|chain| !chain.is_empty());
    let Some(first) = chains.next() else { return 0 };
    let shared = |most: usize, chain: &&[SequenceHash]| {
        first.iter().zip(*chain).take(most).take_while(|(one, other)| one == other).count()
    };
    // One prompt alone shares everything with all others: nothing is known of a system prompt then.
    chains.next().map_or(0, |second| chains.fold(shared(first.len(), second), shared))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(chains: &[&[u64]]) -> Vec<u64> {
        let chains: Vec<Vec<SequenceHash>> =
            chains.iter().map(|chain| chain.iter().copied().map(SequenceHash).collect()).collect();
        derive(&chains.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn turns_follow_and_branches_part() {
        let turns: [&[u64]; 7] = [
            &[0, 1, 2],
            &[0, 5],
            &[0, 1, 2, 3],
            // Longer than its first turn by two, and the second conversation goes on.
            &[0, 1, 2, 3, 4, 6],
            &[0, 5, 7],
            // From a turn that was continued already.
            &[0, 1, 2, 9],
            &[0, 8],
        ];
        assert_eq!(of(&turns), [1, 2, 1, 1, 2, 3, 4]);
    }

    #[test]
    fn a_system_prompt_alone_is_no_conversation() {
        assert_eq!(of(&[&[0], &[0, 1], &[0], &[0, 1, 2], &[]]), [1, 2, 3, 2, 4]);
        assert_eq!(of(&[&[1]]), [1]);
        assert_eq!(of(&[]), Vec::<u64>::new());
    }
}
