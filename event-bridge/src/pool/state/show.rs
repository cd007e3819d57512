//! What people are shown of the pool.

use super::State;
use crate::pool::Member;
use crate::pool::snapshot::{Holding, IndexDump, PoolSnapshot};

impl State {
    pub(in crate::pool) fn snapshot(&self) -> PoolSnapshot {
        let source = |slot| self.ingest.report(slot).map(|report| (slot, (report, self.runners.stats(slot))));
        let finding = |slot| self.ingest.finding(slot).map(|finding| (slot, finding.clone()));
        let checked = |member: &Member| {
            let address = member.spec.address;
            Some((address, self.checks.outcome(address)?.clone()))
        };
        PoolSnapshot {
            name: self.config.name.clone(),
            members: self.membership.members().cloned().collect(),
            sources: self.followed().filter_map(source).collect(),
            findings: self.followed().filter_map(finding).collect(),
            index: self.ingest.index().stats(),
            max_blocks: self.config.limits.max_blocks,
            page_bits: self.ingest.index().page_bits(),
            block_size: self.ingest.block_size(),
            expected_block_size: self.config.block_size,
            table_version: self.view.table_version(),
            settled: self.view.settled(),
            workers_error: self.workers_error.clone(),
            eds_error: self.endpoints.error().cloned(),
            tokenizer: self.tokenizer.clone(),
            checks_with_engine: self.config.check_with_engine,
            checks: self.membership.members().filter_map(checked).collect(),
            chats_problem: self.chats_problem.clone(),
            counters: self.counters,
        }
    }

    pub(in crate::pool) fn dump(&self) -> IndexDump {
        let mut holdings = Vec::new();
        self.ingest.index().for_each_holder(|slot, tier, block, depth| {
            holdings.push(Holding { slot, tier, block, depth });
        });
        let targets = self.membership.members().flat_map(|member| {
            let address = member.spec.address;
            member.targets.iter().map(move |target| (target.slot, (address, target.spec.rank)))
        });
        IndexDump { targets: targets.collect(), holdings }
    }
}
