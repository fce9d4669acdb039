# Two commands do all the set-up on a fresh Debian 12: make demo, make test.
BUILD ?= build
PACKAGES = $(shell grep -v '^\#' tools/packages.txt)

.PHONY: all demo test check install bench fuzz selftest clean packages

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) -v --quiet 2>/dev/null || ninja -C $(BUILD)

$(BUILD)/build.ninja: | packages
	meson setup $(BUILD)

packages:
	@tools/install-packages

demo: all
	@examples/demo.sh $(BUILD)

test: packages
	@tools/run-suite $(BUILD)

selftest: all
	$(BUILD)/cloche selftest

bench: all
	bench/cold-call.py --build $(BUILD)
	bench/context.py --build $(BUILD) --rounds 50 --without upstream,jupyter

fuzz: packages
	tools/fuzz

install: all
	meson install -C $(BUILD)

clean:
	rm -rf $(BUILD) $(BUILD)-checked
