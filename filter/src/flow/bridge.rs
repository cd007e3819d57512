//! Prompts the core cannot tokenize: the bridge is asked, and when it does not answer well and in time, the ladder applies.

use kv_routing::block::{BlockSize, HashSeed};
use kv_routing::tokens::{HashPlan, PreparedPrompt};
use kv_routing::wire::{ADAPTER_HEADER, POOL_HEADER, TOKENIZE_PATH, TOKENIZED_TYPE, Tokenized};

use super::prompt::{Asked, Prompt};
use super::{Flow, Next, State};
use crate::counters::Counter;
use crate::host::{Answer, Host};
use crate::vm::Vm;

/// A request whose prompt is with the bridge.
#[derive(Debug)]
pub(super) struct Asking {
    asked: Asked,
    block_size: BlockSize,
    /// Should the bridge not answer.
    fallback: Prompt,
}

impl Flow {
    /// Sends the prompt to the bridge.
    pub(super) fn ask_bridge(
        &mut self,
        vm: &mut Vm,
        host: &impl Host,
        body: &[u8],
        asked: Asked,
        block_size: BlockSize,
        fallback: Prompt,
    ) -> Next {
        let path = format!("{TOKENIZE_PATH}?block_size={}&path={}", block_size.tokens(), asked.ruled.endpoint().path());
        let mut headers = vec![
            (":method", "POST"),
            (":path", path.as_str()),
            (":authority", self.config.bridge_cluster.as_str()),
            ("accept", TOKENIZED_TYPE),
            (POOL_HEADER, asked.pool.manifest.name.as_str()),
        ];
        if let Some(adapter) = asked.adapter() {
            headers.push((ADAPTER_HEADER, adapter));
        }
        match host.call(&self.config.bridge_cluster, &headers, body, self.config.bridge_timeout_ms) {
            Ok(call) => {
                self.state = State::Asking(Box::new(Asking { asked, block_size, fallback }));
                Next::AwaitAnswer(call)
            }
            Err(_) => {
                vm.counters.count(host, Counter::InexactBridgeFailed);
                self.decide(vm, host, asked, fallback)
            }
        }
    }

    /// The answer to the HTTP call this request waits for.
    pub(super) fn on_answer(&mut self, vm: &mut Vm, host: &impl Host, answer: Answer) -> Next {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Asking(asking) => self.on_tokenized(vm, host, *asking, answer),
            State::Handing(handing) => self.take_prefill(vm, host, handing, answer),
            State::Left(handing) => self.take_left(vm, host, handing, answer),
            State::Freeing(freeing) => self.take_freed(vm, host, *freeing, answer),
            State::Routed(routed) => self.note_prefill(vm, host, routed, answer),
            other => {
                self.state = other;
                self.as_held()
            }
        }
    }

    fn on_tokenized(&mut self, vm: &mut Vm, host: &impl Host, asking: Asking, answer: Answer) -> Next {
        let Asking { asked, block_size, fallback } = asking;
        self.timings.tokenize = self.lap(host);
        match read(host, answer) {
            Ok(Tokenized { tokens, exact_tokens, chain }) => {
                vm.counters.count(host, Counter::BridgeTokenized);
                let prepared = PreparedPrompt { tokens, exact_tokens, chain, ..PreparedPrompt::default() };
                // Its first tokens are not told, so nobody asks for their seed.
                let plan = HashPlan { block_size, seed: HashSeed::default() };
                let prompt = Prompt { by_bridge: true, ..Prompt::exact(prepared, plan) };
                self.decide(vm, host, asked, prompt)
            }
            Err(inexact) => {
                vm.counters.count(host, inexact);
                self.decide(vm, host, asked, fallback)
            }
        }
    }
}

/// # Errors
/// The counter of the reason why there are no tokens.
fn read(host: &impl Host, answer: Answer) -> Result<Tokenized, Counter> {
    if answer.headers == 0 {
        return Err(Counter::InexactBridgeFailed);
    }
    match host.answer_header(":status").as_deref() {
        Some(b"200") => Tokenized::decode(&host.answer_body(answer.body)).map_err(|_| Counter::InexactBridgeFailed),
        // The bridge could not render or tokenize it: as if the core could not.
        Some(b"422") => Err(Counter::InexactPrompt),
        // Envoy's own, after the deadline.
        Some(b"504") => Err(Counter::InexactBridgeLate),
        _ => Err(Counter::InexactBridgeFailed),
    }
}
