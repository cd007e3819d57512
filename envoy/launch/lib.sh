# Sourced by the presets: starts engines, the event bridge and Envoy on this machine, and ends them together.
#
# A preset says how its engine is started for each role and calls `launch` with one line per engine. Settings:
#   MODEL_DIR     folder with weights, tokenizer and chat template; nothing is ever downloaded
#   MODEL         name that clients send as `model` (default: the folder's name)
#   HTTP_PORT     first engine's port (8101); EVENTS_PORT (5601) and SIDE_PORT (5701) count up likewise
#   RUN_DIR       configurations and logs (default: a new folder in /tmp; sockets need a short path)
#   BRIDGE ENVOY WASM   programs (default: those built and fetched in this repository)
# With --mock, simulated engines take the place of real ones, and the tokenizer of `make setup` that of the model.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

MOCK=
for argument in "$@"; do
  case $argument in
    --mock) MOCK=yes ;;
    *) die "usage: $0 [--mock]   (settings are environment variables, see ${BASH_SOURCE[0]})" ;;
  esac
done
if [ -n "$MOCK" ]; then
  MODEL_DIR=${MODEL_DIR:-$ROOT/.deps/tokenizers/qwen3}
fi
[ -n "${MODEL_DIR:-}" ] || die "set MODEL_DIR to the model's folder, or try --mock"
[ -f "$MODEL_DIR/tokenizer.json" ] || die "$MODEL_DIR has no tokenizer.json"
MODEL=${MODEL:-$(basename "$MODEL_DIR")}
HTTP_PORT=${HTTP_PORT:-8101} EVENTS_PORT=${EVENTS_PORT:-5601} SIDE_PORT=${SIDE_PORT:-5701}
BRIDGE=${BRIDGE:-$ROOT/target/debug/event-bridge}
ENVOY=${ENVOY:-$ROOT/.deps/envoy/envoy}
WASM=${WASM:-$ROOT/target/filter.wasm}
MOCK_ENGINE=${MOCK_ENGINE:-$ROOT/target/debug/mock-engine}
for program in "$BRIDGE" "$ENVOY" "$WASM" ${MOCK:+"$MOCK_ENGINE"}; do
  [ -e "$program" ] || die "$program is missing: run make wasm build"
done
RUN_DIR=${RUN_DIR:-$(mktemp -d /tmp/kv-router.XXXXXX)}
# Model folders are local; anything that is missing in one should fail and not be fetched.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1

PIDS=()
finish() {
  trap - EXIT INT TERM
  kill "${PIDS[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
}
trap finish EXIT INT TERM

# What KV events vLLM and SGLang are told to publish: for port $1, with the last batches kept for replay at $1 + 1000.
kv_events() {
  printf '{"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:%s", "replay_endpoint": "tcp://*:%s", "topic": "kv-events"}' \
    "$1" "$(($1 + 1000))"
}

# The same for SGLang, which has no `enable_kv_cache_events`: a publisher alone switches events on.
sglang_events() { kv_events "$1" | sed 's/"enable_kv_cache_events": true, //'; }

# simulated PROTOCOL ROLE HTTP EVENTS SIDE: the engine of --mock. Prefill engines hold blocks, decode engines check what they get.
simulated() {
  exec "$MOCK_ENGINE" --model-dir "$MODEL_DIR" --served-model-name "$MODEL" --port "$3" --role "$2" --pd-protocol "$1" \
    --events-endpoint "tcp://127.0.0.1:$4" --replay-endpoint "tcp://127.0.0.1:$(($4 + 1000))" --side-channel-port "$5" \
    --recompute-lost
}

# launch ENGINE PROTOCOL ROLE...: one engine for each ROLE (both, prefill, decode), on a GPU of its own, by the preset's
# function `real ROLE GPU HTTP EVENTS SIDE`; then bridge and Envoy. Returns when any of them ends.
launch() {
  local engine=$1 protocol=$2 gpu=0 role disaggregated= workers=
  shift 2
  for role in "$@"; do
    local http=$((HTTP_PORT + gpu)) events=$((EVENTS_PORT + gpu)) side=$((SIDE_PORT + gpu))
    if [ -n "$MOCK" ]; then
      simulated "$protocol" "$role" "$http" "$events" "$side" >"$RUN_DIR/engine-$http.log" 2>&1 &
    else
      real "$role" "$gpu" "$http" "$events" "$side" >"$RUN_DIR/engine-$http.log" 2>&1 &
    fi
    PIDS+=($!)
    workers+="{address: '127.0.0.1:$http', role: $role, bootstrap: {port: $side},"
    workers+=" events: {endpoint: 'tcp://127.0.0.1:$events', replay: 'tcp://127.0.0.1:$((events + 1000))'}}, "
    [ "$role" = both ] || disaggregated=yes
    gpu=$((gpu + 1))
  done
  # The simulated engines show vLLM's metrics.
  cat >"$RUN_DIR/bridge.yaml" <<EOF
envoys: [{name: envoy, endpoint: 'unix:$RUN_DIR/ingest.sock'}]
pools:
  - name: pool
    models: ['$MODEL']
    model_dir: '$MODEL_DIR'
    cache_dir: '$RUN_DIR'
    engine: $([ -n "$MOCK" ] && echo vllm || echo "$engine")
    eds_file: eds.json
    disaggregation: {protocol: $protocol, eds_file: prefill-eds.json}
    workers: [$workers]
EOF
  local config=envoy.yaml
  [ -z "$disaggregated" ] || config=envoy-disagg.yaml
  # Both of SGLang's calls are made at once: when they come to nothing, the whole is repeated.
  [ -z "$disaggregated" ] || [ "$protocol" != sglang ] || config=envoy-disagg-repeat.yaml
  "$ROOT/scripts/envoy-config.sh" "$ROOT/envoy/$config" "$WASM" "$RUN_DIR" >"$RUN_DIR/envoy.yaml"
  # Envoy wants the endpoint files to exist.
  printf '{"resources": []}\n' | tee "$RUN_DIR/prefill-eds.json" >"$RUN_DIR/eds.json"
  "$BRIDGE" run --config "$RUN_DIR/bridge.yaml" >"$RUN_DIR/bridge.log" 2>&1 &
  PIDS+=($!)
  "$ENVOY" --config-path "$RUN_DIR/envoy.yaml" --use-dynamic-base-id --log-level warn --file-flush-interval-msec 100 \
    >"$RUN_DIR/envoy.log" 2>&1 &
  PIDS+=($!)
  printf 'model %s at http://127.0.0.1:10000/v1, bridge at http://127.0.0.1:9902/workers, logs in %s\n' "$MODEL" "$RUN_DIR"
  wait -n || true
  die "a process ended; its log in $RUN_DIR says why"
}
