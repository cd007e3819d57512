#!/usr/bin/env bash
# TensorRT-LLM: two context engines, two generation engines, one GPU each. --mock simulates them.
source "$(dirname "$0")/../lib.sh"

# cache_transceiver_config  hands blocks from context to generation engines
# disable_overlap_scheduler context engines only: their answer must come with the blocks ready
# enable_block_reuse        what the router routes by
# kv_events_config          tells the router which blocks are cached, over ZeroMQ (releases from 1.3 on)
# return_perf_metrics       load, for the router
real() {
  local role=$1 gpu=$2 http=$3 events=$4 options=$RUN_DIR/trtllm-$3.yaml
  {
    printf 'return_perf_metrics: true\ncache_transceiver_config: {backend: DEFAULT}\n'
    printf 'kv_cache_config: {enable_block_reuse: true, kv_events_config: %s}\n' "$(kv_events "$events")"
    [ "$role" != prefill ] || printf 'disable_overlap_scheduler: true\n'
  } >"$options"
  CUDA_VISIBLE_DEVICES=$gpu exec trtllm-serve "$MODEL_DIR" --host 127.0.0.1 --port "$http" --backend pytorch \
    --extra_llm_api_options "$options"
}

launch trtllm trtllm prefill prefill decode decode
