//! The metric families: name, help, and where the value of a rank comes from.

use super::{Histogram, RankMetrics};

/// Labels beside `engine` and `model_name`, with the value.
pub(super) type Samples = Vec<(Option<(&'static str, &'static str)>, f64)>;

/// One family with scalar samples per rank.
pub(super) struct Scalar {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) counter: bool,
    pub(super) samples: fn(&RankMetrics) -> Samples,
}

/// One histogram family per rank.
pub(super) struct Distribution {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) histogram: fn(&RankMetrics) -> &Histogram,
}

const fn gauge(name: &'static str, help: &'static str, samples: fn(&RankMetrics) -> Samples) -> Scalar {
    Scalar { name, help, counter: false, samples }
}

const fn counter(name: &'static str, help: &'static str, samples: fn(&RankMetrics) -> Samples) -> Scalar {
    Scalar { name, help, counter: true, samples }
}

const fn histogram(name: &'static str, help: &'static str, histogram: fn(&RankMetrics) -> &Histogram) -> Distribution {
    Distribution { name, help, histogram }
}

fn one(value: impl Into<f64>) -> Samples {
    vec![(None, value.into())]
}

fn count(value: u64) -> Samples {
    one(value as f64)
}

fn labelled(label: &'static str, values: &[(&'static str, f64)]) -> Samples {
    values.iter().map(|(name, value)| (Some((label, *name)), *value)).collect()
}

/// Families with scalar samples, in vLLM's order. A counter's `_created` twin follows it.
pub(super) const SCALARS: &[Scalar] = &[
    counter("vllm:estimated_flops_per_gpu_total", "Not simulated: always 0.", |_| one(0.0)),
    counter("vllm:estimated_read_bytes_per_gpu_total", "Not simulated: always 0.", |_| one(0.0)),
    counter("vllm:estimated_write_bytes_per_gpu_total", "Not simulated: always 0.", |_| one(0.0)),
    gauge("vllm:num_requests_running", "Requests being computed.", |m| count(m.running as u64)),
    gauge("vllm:num_requests_waiting", "Requests in the queue.", |m| count(m.waiting as u64)),
    gauge("vllm:num_requests_waiting_by_reason", "Requests in the queue, by what they wait for.", |m| {
        labelled("reason", &[("capacity", (m.waiting - m.deferred) as f64), ("deferred", m.deferred as f64)])
    }),
    gauge("vllm:engine_sleep_state", "1 for the state the engine is in.", |_| {
        labelled("sleep_state", &[("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)])
    }),
    gauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", |m| one(m.kv_usage)),
    counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", |m| {
        count(m.scheduler.prefix_queries)
    }),
    counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", |m| {
        count(m.scheduler.prefix_hits)
    }),
    counter("vllm:external_prefix_cache_queries_total", "Prompt tokens looked for in other instances.", |m| {
        count(m.scheduler.external_queries)
    }),
    counter("vllm:external_prefix_cache_hits_total", "Prompt tokens received from other instances.", |m| {
        count(m.scheduler.external_hits)
    }),
    counter("vllm:mm_cache_queries_total", "Not simulated: always 0.", |_| one(0.0)),
    counter("vllm:mm_cache_hits_total", "Not simulated: always 0.", |_| one(0.0)),
    counter("vllm:num_preemptions_total", "Requests that lost their blocks to another one.", |m| {
        count(m.scheduler.preemptions)
    }),
    counter("vllm:prompt_tokens_total", "Prompt tokens of requests that got a first token.", |m| {
        count(m.scheduler.prompt_tokens)
    }),
    counter("vllm:prompt_tokens_by_source_total", "Prompt tokens by where their KV came from.", |m| {
        let local = m.scheduler.prompt_tokens as f64 - m.cached_prompt_tokens() - m.scheduler.external_hits as f64;
        let hits = m.cached_prompt_tokens();
        labelled(
            "source",
            &[
                ("local_compute", local.max(0.0)),
                ("local_cache_hit", hits),
                ("external_kv_transfer", m.scheduler.external_hits as f64),
            ],
        )
    }),
    counter("vllm:prompt_tokens_cached_total", "Prompt tokens not computed here.", |m| {
        one(m.cached_prompt_tokens() + m.scheduler.external_hits as f64)
    }),
    counter("vllm:prompt_tokens_cached_by_source_total", "Prompt tokens not computed here, by cache tier.", |m| {
        let external = m.scheduler.external_hits as f64;
        let device = m.cached_prompt_tokens();
        labelled(
            "source",
            &[("device", device), ("host", 0.0), ("p2p", external), ("disk", 0.0), ("external_unspecified", 0.0)],
        )
    }),
    counter("vllm:generation_tokens_total", "Tokens generated.", |m| count(m.scheduler.generation_tokens)),
    counter("vllm:request_success_total", "Requests that ended, by how.", |m| {
        labelled(
            "finished_reason",
            &[
                ("stop", m.finished_stop as f64),
                ("length", m.finished_length as f64),
                ("abort", m.finished_abort as f64),
                ("error", 0.0),
                ("repetition", 0.0),
            ],
        )
    }),
];

/// Histogram families, in vLLM's order.
pub(super) const DISTRIBUTIONS: &[Distribution] = &[
    histogram("vllm:request_prompt_tokens", "Prompt tokens per request.", |m| &m.request_prompt_tokens),
    histogram("vllm:request_generation_tokens", "Answer tokens per request.", |m| &m.request_generation_tokens),
    histogram("vllm:iteration_tokens_total", "Tokens per step.", |m| &m.iteration_tokens),
    histogram("vllm:request_max_num_generation_tokens", "Longest answer per request.", |m| {
        &m.request_generation_tokens
    }),
    histogram("vllm:request_params_n", "Answers asked for per request.", |m| &m.request_params_n),
    histogram("vllm:request_params_max_tokens", "Answer tokens allowed per request.", |m| &m.request_params_max_tokens),
    histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", |m| &m.time_to_first_token),
    histogram("vllm:inter_token_latency_seconds", "Between two tokens.", |m| &m.inter_token_latency),
    histogram("vllm:request_time_per_output_token_seconds", "Mean per token after the first.", |m| {
        &m.time_per_output_token
    }),
    histogram("vllm:e2e_request_latency_seconds", "Arrival to end.", |m| &m.e2e_latency),
    histogram("vllm:request_queue_time_seconds", "Time in the queue.", |m| &m.queue_time),
    histogram("vllm:request_inference_time_seconds", "Time being computed.", |m| &m.inference_time),
    histogram("vllm:request_prefill_time_seconds", "Start of computing to first token.", |m| &m.prefill_time),
    histogram("vllm:request_decode_time_seconds", "First token to last.", |m| &m.decode_time),
    histogram("vllm:request_num_preemptions", "Preemptions per request.", |m| &m.request_preemptions),
    histogram("vllm:request_prefill_kv_computed_tokens", "Prompt tokens computed per request.", |m| {
        &m.prefill_computed_tokens
    }),
];
