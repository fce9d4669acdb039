# Two commands do all the set-up on a fresh Debian 12: make demo, make test.
BUILD ?= build
BEGUN := $(shell date +%s)
STEP = echo "== $(1) ($$(($$(date +%s) - $(BEGUN))) s)"

.PHONY: all demo demo-packages test test-machine install bench fuzz selftest clean packages

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

# Steps that may take long name themselves; what a step says when it goes well is of no interest.
$(BUILD)/build.ninja: | packages
	@$(call STEP,configuring $(BUILD))
	@mkdir -p $(BUILD)
	@meson setup $(BUILD) >$(BUILD)/setup.log || { cat $(BUILD)/setup.log; exit 1; }

packages:
	@tools/check-tree $(BUILD)
	@tools/install-packages build

demo-packages:
	@tools/check-tree $(BUILD)
	@$(call STEP,packages)
	@tools/install-packages build demo

demo: demo-packages
	@$(MAKE) --no-print-directory BEGUN=$(BEGUN) $(BUILD)/build.ninja
	@$(call STEP,building)
	@ninja -C $(BUILD)
	@$(call STEP,the demo)
	@examples/demo.sh $(BUILD)
	@$(call STEP,done)

test:
	@tools/check-tree $(BUILD)
	@tools/install-packages build demo test
	@tools/run-suite $(BUILD)

# On a stock Debian that is booted under emulation; half an hour. Part of every release.
test-machine: all
	@tools/install-packages build machine
	@tools/test-machine --build $(BUILD)

selftest: all
	$(BUILD)/cloche selftest

bench: all
	bench/cold-call.py --build $(BUILD)
	bench/context.py --build $(BUILD) --rounds 50 --without upstream,jupyter
	bench/images.py --build $(BUILD) --rounds 3

fuzz:
	@tools/install-packages build test
	tools/fuzz

install: all
	meson install -C $(BUILD)

clean:
	rm -rf $(BUILD) $(BUILD)-checked
