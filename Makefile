# Each goal does all that it needs, from a bare machine on; what is done is not done again. make help lists them.
# docs/building.md has the details.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup setup-test demo build test test-all bench release cuda asan tsan fuzz tidy format clean
MAKEFLAGS += --no-print-directory

help:
	@echo "make demo      set everything up, build, and run the demo"
	@echo "make test      set everything up, build, and run all tests (make test-all: also with the larger models)"
	@echo "make build     the command: build/inferscale"
	@echo "make release   a static command for every x86-64-v3 CPU: build-release/inferscale"
	@echo "make cuda      the command with the engine on this machine's NVIDIA GPU: build-cuda/inferscale"
	@echo "make bench     the benchmarks"
	@echo "make asan      unit tests under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make tsan      unit tests under ThreadSanitizer"
	@echo "make fuzz      each fuzz target for FUZZ_SECONDS (20)"
	@echo "make tidy      layers, sizes, banned calls (make format: clang-format all sources)"
	@echo "make clean     delete the build folders; models and llama.cpp stay in $$(tools/setup path cache)"

setup:
	@tools/setup demo

setup-test:
	@tools/setup test

build: setup
	@tools/build release inferscale

demo: build
	@build/inferscale demo

test:
	@tools/check all

test-all:
	@INFERSCALE_ALL_MODELS=1 INFERSCALE_LONG_ASAN=1 CUDA_ARCHITECTURES='80;90;100;120' tools/check all

asan: setup-test
	@tools/check asan

tsan: setup-test
	@tools/check tsan

fuzz: setup-test
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-20} tools/check fuzz

bench:
	@tools/setup bench
	@tools/build bench
	@tools/check bench

release:
	@tools/setup portable
	@tools/build portable inferscale
	@echo "build-release/inferscale: $$(stat -c %s build-release/inferscale) bytes, static, for x86-64-v3"

cuda:
	@tools/setup cuda
	@tools/build cuda inferscale

tidy:
	@python3 tools/tidy_test.py
	@python3 tools/tidy

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

clean:
	rm -rf build build-*/
