# frozen_string_literal: true

require "fiddle"

module ClocheAgent
  # Templates: prewarmed, frozen, forked into boxes (src/box/join/guest.h). Loaded only in a process that is to be one.
  class Template
    include Own

    WARM = %w[rubygems json set date time stringio strscan securerandom digest digest/sha2 tempfile tmpdir fileutils pathname
              bigdecimal ostruct erb uri optparse shellwords timeout benchmark csv yaml forwardable delegate singleton observer
              open3 logger pp prettyprint English monitor etc io/console io/wait zlib base64 matrix prime tsort].freeze
    TEXT_SIZE = 1024
    # After so many forks a template gets huge pages of its own, which cost a prefix memory and save each run time.
    FORKS_OF_A_BUSY_ONE = 32
    REHEARSALS = 20
    IDLE_SECONDS, PAUSE = 4, 0.05
    # Free object slots: a child that has them copies no page to make more, and needs no collection soon.
    ROOM, KEPT_MAX = 100_000, 200_000
    # Sizes that are allocated until malloc has no gap of that size left, and the most allocations of each.
    BLOCKS, BLOCKS_MAX = (24..1032).step(16).to_a.reverse.freeze, 20_000
    REHEARSED = [
      ["args", nil, [1, "two", 3.5, nil, [true], {"key" => "value"}]],
      ["def f_(a, b = 2, *rest, **more)\n  {a: a, b: [b, rest], more: more, n: 1.5, t: [:t, \"x\\n\"]}\nend\n", "f_", [1, "x"]],
      ["require 'json'\nclass ClocheRehearsal_\n  def initialize(x)\n    @x = x\n  end\n  def g\n    [@x.to_s, JSON.generate(@x)]\n  end\nend\n" \
       "def g_(x)\n  ClocheRehearsal_.new(x).g\nend\n", "g_", [{"k" => [1, 2]}]],
      ["def h_\n  raise ArgumentError, 'no'\nend\n", "h_", []],
      ["(1..10).map { |i| i * i }.sum", nil, []]
    ].freeze

    def initialize
      @library = Fiddle.dlopen(Serve::LIBRARY)
      @wait, @child, @start = %w[wait child start].map { |name| function(name, []) }
      @wait_for = function("wait_for", [Fiddle::TYPE_INT])
      # Other threads go on meanwhile.
      @idle = function("idle", [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: false)
      @reap = function("reap", [], Fiddle::TYPE_VOID)
      @parent = function("parent", [Fiddle::TYPE_INT], Fiddle::TYPE_VOID)
      @freeze = function("freeze", [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T])
      @collapse = function("collapse", [Fiddle::TYPE_INT], Fiddle::TYPE_LONG)
      @loaded = function("loaded", [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID)
      prepare_forks
      started = @start.call
      @threads = Dir.children("/proc/self/task").size
      raise SystemCallError.new("cannot become a template", -started) unless started == 1
    end

    # Prewarm: load files that most code requires, and the agent's own rarely used parts.
    def warm_up
      WARM.each do |name|
        Call::MAIN.__send__(:require, name) # RubyGems' own `require`, from the first one on
      rescue LoadError
        next # stripped from the image
      end
      %w[rare errors bridge].each { |name| Agent.part(name) }
      Pristine.trust
      rehearse(REHEARSALS, REHEARSED)
    end

    # nil, or the fork blocker.
    def freeze(channel)
      [$stdout, $stderr].each { |stream| stream.flush rescue nil }
      $LOADED_FEATURES.each { |path| @loaded.call(path) } # a fork must not mix these with changed ones
      settle_heap
      await_idle_threads
      blocker = refusal(channel)
      @collapse.call(0) unless blocker
      blocker
    end

    # Returns in a child only: true if the child may itself become a template.
    def children(channel)
      channel.rest
      forks = 0
      while @wait.call == 1
        pid = fork_child
        return begin_child if pid == 0
        @parent.call(pid)
        forks += 1
        @collapse.call(1) if forks == FORKS_OF_A_BUSY_ONE
      end
      Process.exit!(0)
    end

    # The fork blocker of a context as it is now, or nil.
    def blocker(channel)
      others = Thread.list.size - 1
      return "#{others} thread#{"s" if others > 1} of Ruby #{others > 1 ? "are" : "is"} alive" if others > 0
      await_idle_threads
      return nil unless refusal(channel)
      GC.start # unreferenced open files are no blocker
      refusal(channel)
    end

    # Returns nil when the next request has arrived, and in a child as `children` does.
    def branches(channel)
      until channel.held? || @wait_for.call(channel.number) != 1
        pid = fork_child
        if pid == 0
          channel.rest # the child has closed it
          return begin_child
        end
        @parent.call(pid)
      end
    end

    # 1 if the channel is readable; 0: forks may have ended.
    def idle(number)
      @idle.call(number)
    end

    def reap
      @reap.call
    end

    # No request waits yet: pages that the first call will touch are copied from the template now.
    def get_ready
      rehearse(1, REHEARSED[0, 1])
    end

    private

    def function(name, takes, gives = Fiddle::TYPE_INT, need_gvl: true)
      # Ruby 2.7 never blocks other threads here.
      options = RUBY_VERSION.to_i < 3 ? {} : {need_gvl: need_gvl}
      Fiddle::Function.new(@library["cloche_guest_#{name}"], takes, gives, **options)
    end

    # Since Ruby 3.3 a fork starts Ruby's own thread for timers in the child, and once in the
    # parent: here, before the threads are counted.
    def prepare_forks
      refused = function("watch_fork", []).call
      raise SystemCallError.new("watch forks", -refused) if refused.negative?
      Process.wait(Process.fork { Process.exit!(0) })
    end

    def fork_child
      Process.fork || 0
    rescue SystemCallError => error
      -error.errno
    end

    # Run code before the fork: its caches are filled then, and each page written after a fork is copied.
    def rehearse(times, codes)
      name, verbose = $PROGRAM_NAME, $VERBOSE
      $VERBOSE = nil # the same methods again and again
      times.times { codes.each { |code, function, args| rehearse_call(code, function, args) } }
    ensure
      $PROGRAM_NAME, $VERBOSE = name, verbose
      Object.__send__(:remove_const, :ClocheRehearsal_) if Object.const_defined?(:ClocheRehearsal_, false)
      %i[f_ g_ h_].each { |method| Object.__send__(:remove_method, method) if Object.private_method_defined?(method, false) }
    end

    def rehearse_call(code, function, args)
      params = {"code" => code, "filename" => "main.rb", "function" => function, "args" => args, "resultBytes" => 1 << 20}
      text = Encoder.new(0).encode("jsonrpc" => "2.0", "id" => 1, "method" => "call", "params" => params)
      Serve.respond([+text, "".b])
    end

    # Ruby keeps the system thread of a finished thread for three seconds, for the next one.
    def await_idle_threads
      IDLE_SECONDS.fdiv(PAUSE).ceil.times do
        break if Thread.list.size > 1 || Dir.children("/proc/self/task").size <= @threads
        sleep PAUSE
      end
    end

    # A forked child copies each page that it writes to. Its allocations shall lie together: on
    # pages of the object heap and in blocks of malloc's that are wholly free, not in the gaps that
    # start-up and set-up have left.
    def settle_heap
      Process.respond_to?(:warmup) ? Process.warmup : 3.times { GC.start }
      (@kept ||= []) << Array.new([GC.stat(:heap_free_slots), KEPT_MAX].min) { Object.new }
      Array.new(ROOM) { Object.new }
      GC.start
      fill_gaps
    end

    def fill_gaps
      top = Fiddle.malloc(BLOCKS.last << 8)
      BLOCKS.each do |size|
        BLOCKS_MAX.times { break if Fiddle.malloc(size) > top }
      end
    end

    def refusal(channel)
      text = "\0" * TEXT_SIZE
      @freeze.call(channel.number, text, TEXT_SIZE) == 0 ? nil : text.unpack1("Z*")
    end

    # Returns true if the child may itself become a template.
    def begin_child
      is_template = @child.call == 1
      renew
      is_template
    end

    # Renew state that siblings must not share. Ruby itself gives Kernel#rand a new seed after a fork.
    def renew
      names = Dir.const_defined?(:Tmpname, false) && Dir::Tmpname.const_defined?(:RANDOM, false) && Dir::Tmpname.const_get(:RANDOM)
      names.__send__(:initialize, Random.new_seed) if Random === names
      OpenSSL::Random.seed(Random.urandom(32)) if Object.const_defined?(:OpenSSL, false)
    end
  end
end
