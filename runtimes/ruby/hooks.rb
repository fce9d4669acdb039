# frozen_string_literal: true

module ClocheAgent
  # Replacements of Ruby's own functions: as few as possible.
  module Hooks
    extend Own

    REQUIRE, TRAP = Kernel.instance_method(:require), Kernel.instance_method(:trap)
    TRAPPED = {}
    IMPORTS = {}
    MUTED = {}
    NOTHING = ->(_) {}

    # A child that the user's code forks must not use the channel.
    module Fork
      def _fork
        pid = super
        Serve.forked if pid == 0
        pid
      end
    end

    class << self
      def install
        Process.singleton_class.prepend(Fork)
        replace(:trap) do |*args, &block|
          before = TRAP.bind_call(self, *args, &block)
          Hooks.trapped(args[0])
          before
        end
        watching = Kernel.instance_method(:trap)
        Signal.define_singleton_method(:trap) { |*args, &block| watching.bind_call(self, *args, &block) }
        defer_gems
        read_messages
      end

      # Ruby's own errors have messages in no encoding ("key not found: :k"), which would be sent as bytes.
      def read_messages
        told = Exception.instance_method(:to_s)
        Exception.define_method(:to_s) do
          message = told.bind_call(self)
          next message unless message.encoding == Encoding::BINARY
          text = String.new(message, encoding: Encoding::UTF_8)
          text.valid_encoding? ? text : message
        end
      end

      # The user's handlers run on the main thread, at any moment: between two bytes of a frame, for example.
      def mute
        TRAPPED.each_key { |signal| MUTED[signal] ||= TRAP.bind_call(self, signal, @is_staying ? NOTHING : "IGNORE") }
      end

      # Threads of a context go on between cells: programs they start would inherit an ignored signal.
      def stay
        @is_staying = true
      end

      def trapped?(signal)
        TRAPPED.key?(signal)
      end

      # Give a signal that the user's code has trapped back to the agent.
      def forget(signal)
        TRAPPED.delete(signal)
        MUTED.delete(signal)
      end

      # 10, :USR1 and "SIGUSR1" are one.
      def trapped(signal)
        TRAPPED[Integer === signal ? Signal.signame(signal) : signal.to_s.delete_prefix("SIG")] = true
      end

      def unmute
        MUTED.each { |signal, handler| TRAP.bind_call(self, signal, handler) }
        MUTED.clear
      end

      # RubyGems costs four times as much as Ruby's own start, so it is loaded on first use: of the
      # name Gem, of `gem`, or of `require` for a file that the standard library does not have.
      def defer_gems
        Object.autoload(:Gem, "rubygems")
        replace(:gem) { |*args| Hooks.load_gems && gem(*args) }
        replace(:require) do |path|
          Hooks.before_gems if path == "rubygems"
          begin
            next REQUIRE.bind_call(self, path)
          rescue LoadError => error
            raise if Hooks.gems? || !error.path
          end
          # Not in the rescue clause: it would be the cause of the next exception.
          Hooks.load_gems
          require(path)
        end
      end

      # RubyGems replaces `require` itself and keeps the one before it, which must be Ruby's.
      def before_gems
        return if gems?
        @has_gems = true
        replace(:require, REQUIRE)
        Kernel.__send__(:remove_method, :gem)
      end

      def gems?
        @has_gems
      end

      def load_gems
        before_gems
        require "rubygems"
        true
      rescue LoadError
        false
      end

      # Define a module of the host's, found before any file of the same name.
      def import(specifier, &make)
        IMPORTS[specifier] = make
        return if @has_imports
        @has_imports = true
        plain = Kernel.instance_method(:require)
        replace(:require) do |path|
          make = IMPORTS[path] or next plain.bind_call(self, path)
          make.call
        end
      end

      private

      def replace(name, method = nil, &block)
        verbose, $VERBOSE = $VERBOSE, nil
        Kernel.define_method(name, method || block)
        Kernel.__send__(:private, name)
      ensure
        $VERBOSE = verbose
      end
    end
  end
end
