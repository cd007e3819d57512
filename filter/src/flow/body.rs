//! Request body: read once it is whole, take what routing needs, find the pool.

use std::rc::Rc;

use kv_routing::openai::{Endpoint, InferenceRequest, parse};

use super::policy::Ruled;
use super::prompt::Asked;
use super::{Flow, Headers, Next, State, Unrouted};
use crate::host::Host;
use crate::view::Blind;
use crate::vm::Vm;

impl Flow {
    pub(super) fn on_body(&mut self, vm: &mut Vm, host: &impl Host, held: usize, last: bool) -> Next {
        if !matches!(self.state, State::Reading(..)) {
            return self.as_held();
        }
        if held > self.config.max_body_bytes as usize {
            return self.unrouted(vm, host, Unrouted::BodyTooLarge);
        }
        if last { self.on_whole_body(vm, host) } else { Next::AwaitBody }
    }

    /// Bodies followed by trailers never have a last piece.
    pub(super) fn on_trailers(&mut self, vm: &mut Vm, host: &impl Host) -> Next {
        match self.state {
            State::Reading(..) => self.on_whole_body(vm, host),
            _ => self.as_held(),
        }
    }

    /// What a callback without news means: a request in preparation stays held, any other has been released.
    pub(super) fn as_held(&self) -> Next {
        match self.state {
            State::Preparing(_) | State::Asking(_) | State::Handing(_) => Next::AwaitBody,
            _ => Next::Release,
        }
    }

    fn on_whole_body(&mut self, vm: &mut Vm, host: &impl Host) -> Next {
        let State::Reading(endpoint, headers) = std::mem::replace(&mut self.state, State::Over) else {
            return Next::Release;
        };
        let now = self.start_timing(host);
        let body = host.request_body(self.config.max_body_bytes as usize);
        if body.is_empty() {
            return self.unrouted(vm, host, Unrouted::NoBody);
        }
        let Ok(request) = parse(endpoint, &body) else {
            return self.unrouted(vm, host, Unrouted::BadBody);
        };
        vm.refresh(host, now);
        match self.asked(vm, endpoint, headers, &request) {
            Ok(asked) => {
                self.timings.parse = self.lap(host);
                self.prepare(vm, host, &request, &body, asked, now)
            }
            Err(why) => self.unrouted(vm, host, why),
        }
    }

    fn asked(
        &self,
        vm: &mut Vm,
        endpoint: Endpoint,
        headers: Headers,
        request: &InferenceRequest<'_>,
    ) -> Result<Asked, Unrouted> {
        let model = request.model.as_deref();
        let found = vm.view.pool_for(model, self.config.pools.as_deref()).map_err(|blind| match blind {
            Blind::NoManifest => Unrouted::NoManifest,
            Blind::BadManifest => Unrouted::BadManifest,
        })?;
        let (pool, is_adapter) = found.ok_or(Unrouted::UnknownModel)?;
        let model = model.map_or_else(|| pool.manifest.name.clone(), str::to_owned);
        Ok(Asked {
            pool: Rc::clone(&pool),
            model,
            is_adapter,
            stream: request.stream,
            prompts: request.prompts.max(1),
            single: request.prompts <= 1 && request.n <= 1,
            ruled: Ruled::new(vm, endpoint, headers, request),
        })
    }
}
