//! How a shadow policy does.

use super::{Labels, Scrape};
use crate::policy::TallySummary;

impl Scrape {
    pub(super) fn shadow(&mut self, shadow: &TallySummary) {
        let none = Labels::new();
        self.count(
            "shadow_requests",
            "Routed requests that the shadow policy was evaluated for",
            &none,
            shadow.requests,
        );
        self.count(
            "shadow_agreed",
            "Routed requests that the shadow policy would have sent to the same target",
            &none,
            shadow.agreed,
        );
        self.count(
            "shadow_prompt_tokens",
            "Prompt tokens of the requests that the shadow policy was evaluated for",
            &none,
            shadow.prompt_tokens,
        );
        for (policy, tokens, variation) in [
            ("live", shadow.live_hit_tokens, shadow.live_load_variation),
            ("shadow", shadow.shadow_hit_tokens, shadow.shadow_load_variation),
        ] {
            let labels = vec![("policy", policy.to_owned())];
            self.count(
                "shadow_hit_tokens",
                "Prompt tokens believed to be cached on the target that each policy chose",
                &labels,
                tokens,
            );
            let help = "Standard deviation of requests per target over their mean, by policy";
            self.gauge("shadow_load_variation", help, &labels, variation);
        }
    }
}
