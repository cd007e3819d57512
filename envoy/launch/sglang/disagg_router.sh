#!/usr/bin/env bash
# SGLang: two engines prefill, two decode, one GPU each. --mock simulates them.
source "$(dirname "$0")/../lib.sh"

# --disaggregation-mode              the engine's one role; decode engines refuse what nobody prefilled for them
# --disaggregation-bootstrap-port    where decode engines meet a prefill engine; one port per engine on this machine
# --disaggregation-transfer-backend  how blocks travel
# --enable-metrics                   load, for the router
# --page-size 16                     blocks of the size the router prices by
# --kv-events-config                 tells the router which blocks are cached
real() {
  local role=$1 gpu=$2 http=$3 events=$4 side=$5
  CUDA_VISIBLE_DEVICES=$gpu exec python3 -m sglang.launch_server --model-path "$MODEL_DIR" --served-model-name "$MODEL" \
    --port "$http" --enable-metrics --page-size 16 --kv-events-config "$(sglang_events "$events")" \
    --disaggregation-mode "$role" --disaggregation-bootstrap-port "$side" --disaggregation-transfer-backend nixl
}

launch sglang sglang prefill prefill decode decode
