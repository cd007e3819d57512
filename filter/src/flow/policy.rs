//! Which policy a request gets, what that policy makes of it, and what a shadow would have made of it.

use std::rc::Rc;

use kv_routing::openai::{Endpoint, InferenceRequest};
use kv_routing::policy::document::{
    Disaggregation, Document, ExplainLevel, Facts, Mode, Overload, Policy, RuleSet, Selection, SessionKey, Shadow,
};
use kv_routing::policy::session::{self, SessionId};
use kv_routing::policy::{Choice, Hints, Outcome, Plan, Rng, Situation, SplitMix64, Whole, plan, prefix_key};
use kv_routing::target::TargetId;
use kv_routing::wire::{Imagined, UnixMillis, keys};

use super::Headers;
use super::prompt::{Asked, Prompt};
use crate::counters::Counter;
use crate::host::Host;
use crate::vm::Vm;

/// Name of the rule of requests that no rule matches.
const DEFAULT_RULE: &str = "default";

/// What policies look at besides the prompt.
#[derive(Debug)]
pub(super) struct Ruled {
    /// `None`: the filter's own configuration is the policy.
    document: Option<Rc<Document>>,
    /// Whether the shadow looks at this request too.
    shadowed: bool,
    endpoint: Endpoint,
    priority: i64,
    user: Option<String>,
    headers: Headers,
}

/// What a policy says of a decision, in words.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) policy: String,
    pub(super) rule: String,
    pub(super) explain: ExplainLevel,
    /// What the shadow would have done, when it looked.
    pub(super) imagined: Option<Imagined>,
    /// The policy's rules for handing over, of a request that is.
    pub(super) handoff: Option<Disaggregation>,
    /// Why it is not, in a pool where others are.
    pub(super) whole: Option<Whole>,
    /// How requests are answered that nobody can take.
    pub(super) overload: Overload,
}

impl Ruled {
    pub(super) fn new(vm: &mut Vm, endpoint: Endpoint, headers: Headers, request: &InferenceRequest<'_>) -> Self {
        let document = vm.view.policy().cloned();
        let shadow = document.as_ref().and_then(|document| document.shadow.as_ref());
        let shadowed = shadow.is_some_and(|shadow| sampled(shadow, &mut vm.rng));
        Self {
            document,
            shadowed,
            endpoint,
            priority: request.priority.unwrap_or(0),
            user: request.user.as_deref().map(str::to_owned),
            headers,
        }
    }

    /// Path the request came on.
    pub(super) fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    fn header(&self, name: &str) -> Option<Vec<u8>> {
        self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
    }

    fn live(&self) -> Option<&RuleSet> {
        self.document.as_ref().map(|document| &document.live)
    }

    fn shadow(&self) -> Option<&RuleSet> {
        let shadow = self.document.as_ref()?.shadow.as_ref();
        shadow.filter(|_| self.shadowed).map(|shadow| &shadow.rules)
    }
}

fn sampled(shadow: &Shadow, rng: &mut impl Rng) -> bool {
    rng.next_unit() * 1e6 < f64::from(shadow.sample_per_million)
}

impl Asked {
    /// The path it came by.
    pub(super) fn endpoint(&self) -> Endpoint {
        self.ruled.endpoint
    }

    /// The policy by `rules`, or `configured` when there are none.
    fn select<'a>(
        &'a self,
        rules: Option<&'a RuleSet>,
        configured: &'a Policy,
        prompt_tokens: Option<u32>,
    ) -> Selection<'a> {
        let Some(rules) = rules else {
            return Selection::Chosen(configured, None);
        };
        let header = |name: &str| self.ruled.header(name);
        rules.select(&Facts {
            model: &self.model,
            adapter: self.adapter(),
            path: self.ruled.endpoint.path(),
            stream: self.stream,
            priority: self.ruled.priority,
            prompt_tokens,
            header: &header,
        })
    }

    /// Whether choosing depends on the prompt's tokens, for the policy or a shadow; `None`: there is nothing to choose.
    pub(super) fn needs_tokens(&self, configured: &Policy) -> Option<bool> {
        let needs = |rules| match self.select(rules, configured, None) {
            Selection::NeedsTokens => Some(true),
            Selection::Chosen(policy, _) if policy.mode == Mode::Pass => None,
            Selection::Chosen(policy, _) => Some(policy.needs_tokens()),
        };
        match (needs(self.ruled.live()), self.ruled.shadow()) {
            (live, None) => live,
            (live, Some(shadow)) => Some(live == Some(true) || needs(Some(shadow)) == Some(true)),
        }
    }

    /// Sends the request through its policy.
    pub(super) fn route(
        &self,
        vm: &mut Vm,
        host: &impl Host,
        configured: &Policy,
        prompt: &Prompt,
        situation: &Situation<'_>,
    ) -> (Plan, Said) {
        let tokens = Some(prompt.prepared.tokens);
        let (policy, rule) = match self.select(self.ruled.live(), configured, tokens) {
            Selection::Chosen(policy, rule) => (policy, rule),
            Selection::NeedsTokens => (Policy::builtin(), None),
        };
        vm.turn = vm.turn.wrapping_add(1);
        // Live and shadow draw the same random numbers: where they differ, their documents do. The shadow goes first, so that it sees
        // the sessions as they were, and not where this one has just been put.
        let mut shadow_rng = vm.rng.clone();
        let imagined = self.ruled.shadow().map(|shadow| {
            let policy = match self.select(Some(shadow), configured, tokens) {
                Selection::Chosen(policy, _) => policy,
                Selection::NeedsTokens => Policy::builtin(),
            };
            self.follow(vm, host, policy, prompt, situation, Some(&mut shadow_rng)).outcome
        });
        let plan = self.follow(vm, host, policy, prompt, situation, None);
        if let Some(imagined) = &imagined {
            count_agreement(vm, host, &plan.outcome, imagined);
        }
        let said = Said {
            policy: policy.name.clone(),
            rule: rule.map_or(DEFAULT_RULE, |rule| rule.name.as_str()).to_owned(),
            explain: policy.explain,
            imagined: imagined.map(|imagined| self.imagined(&imagined, situation)),
            handoff: plan.decode.is_some().then(|| policy.disaggregation.clone()),
            whole: plan.whole,
            overload: policy.overload,
        };
        (plan, said)
    }

    /// What `policy` makes of the request: for real, or without effect by random numbers of its own.
    fn follow(
        &self,
        vm: &mut Vm,
        host: &impl Host,
        policy: &Policy,
        prompt: &Prompt,
        situation: &Situation<'_>,
        imaginary: Option<&mut SplitMix64>,
    ) -> Plan {
        let session = self.session(policy);
        let bucket = session.as_ref().map(|(id, _)| host.shared(&keys::sessions(id.bucket())));
        let now_seconds = seconds(situation.now);
        let known = |(id, ttl): &(SessionId, u32)| {
            let bytes = bucket.as_ref().and_then(|bucket| bucket.value.as_deref()).unwrap_or_default();
            session::find(bytes, *id, now_seconds, *ttl)
        };
        let direct = match &policy.mode {
            Mode::Direct { header } => self.ruled.header(header),
            _ => None,
        };
        let hints = Hints { session: session.as_ref().and_then(known), direct: direct.as_deref(), turn: vm.turn };
        let situation = match policy.mode {
            Mode::PrefixHash { tokens, .. } if prompt.exact => {
                Situation { prefix: prefix_key(&prompt.prepared.chain, prompt.block_size, b"", tokens), ..*situation }
            }
            _ => *situation,
        };
        let real = imaginary.is_none();
        let plan = plan(
            &situation,
            policy,
            self.pool.manifest.handoff,
            self.fits_handoff(),
            &hints,
            imaginary.unwrap_or(&mut vm.rng),
        );
        if let (true, Outcome::Chosen(choice), Some((id, ttl))) = (real, &plan.outcome, session)
            && let Some(target) = chosen(choice, &situation)
        {
            let bucket = bucket.unwrap_or_default();
            let bytes = bucket.value.as_deref().unwrap_or_default();
            if let Some(bytes) = session::remember(bytes, id, target, now_seconds, ttl)
                && host.set_shared(&keys::sessions(id.bucket()), &bytes, bucket.version).is_err()
            {
                // Another VM wrote the bucket meanwhile; the session's next request tries again.
                vm.counters.count(host, Counter::SessionsContended);
            }
        }
        plan
    }

    /// The request's session under `policy`, and its time to live.
    fn session(&self, policy: &Policy) -> Option<(SessionId, u32)> {
        let Mode::Session { key, ttl_seconds, .. } = &policy.mode else {
            return None;
        };
        let key = match key {
            SessionKey::Header(name) => self.ruled.header(name)?,
            SessionKey::User => self.ruled.user.as_ref()?.clone().into_bytes(),
        };
        Some((SessionId::of(&self.pool.manifest.name, &policy.name, &key), *ttl_seconds))
    }

    /// The shadow's outcome as the bridge gets it.
    fn imagined(&self, outcome: &Outcome, situation: &Situation<'_>) -> Imagined {
        let choice = match outcome {
            Outcome::Chosen(choice) => Some(choice),
            Outcome::Pass(_) | Outcome::Refused(_) => None,
        };
        Imagined {
            version: self.ruled.document.as_ref().map_or(0, |document| document.version),
            target: choice.and_then(|choice| chosen(choice, situation)),
            predicted_blocks: choice.map_or(0, |choice| choice.overlap.total()),
        }
    }
}

fn seconds(now: UnixMillis) -> u32 {
    u32::try_from(now.0 / 1000).unwrap_or(u32::MAX)
}

fn chosen(choice: &Choice, situation: &Situation<'_>) -> Option<TargetId> {
    situation.targets.get(choice.target as usize).map(|target| target.id)
}

/// Counts whether a shadow would have done the same.
fn count_agreement(vm: &Vm, host: &impl Host, live: &Outcome, shadow: &Outcome) {
    vm.counters.count(host, Counter::ShadowEvaluated);
    let same = match (live, shadow) {
        (Outcome::Chosen(live), Outcome::Chosen(shadow)) => live.target == shadow.target,
        (Outcome::Pass(_), Outcome::Pass(_)) => true,
        (Outcome::Refused(live), Outcome::Refused(shadow)) => live.status == shadow.status,
        _ => false,
    };
    if same {
        vm.counters.count(host, Counter::ShadowAgreed);
    }
}
