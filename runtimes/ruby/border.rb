# frozen_string_literal: true

module ClocheAgent
  # The border between the agent's work and the user's code in one process: it defines where
  # interruptions are allowed. Threads raise into each other (Thread#raise, timeouts); SIGINT raises
  # Interrupt on the main thread while a cell of a context runs.
  module Border
    extend Own

    class << self
      # Between cells the signal does nothing; programs started then inherit its default action.
      def watch
        trap("INT") { Border.interrupt }
      end

      def begin_cell
        end_trap if Hooks.trapped?("INT")
        @is_pending = false
        @is_held = @is_running = true
      end

      # A handler of the user's for SIGINT lasts as long as its cell.
      def end_cell
        @is_running = @is_held = @is_pending = false
        end_trap if Hooks.trapped?("INT")
      end

      def running?
        @is_running
      end

      # Run the agent's work in the middle of the user's code: uninterrupted, and with Ruby's own methods.
      def ours
        Thread.handle_interrupt(Object => :never) do
          was_held = hold
          Pristine.during { yield }
        ensure
          let_go unless was_held
        end
      end

      # Run the user's code, or a wait, within `ours`.
      def theirs(&work)
        Pristine.outside { open(&work) }
      end

      def open
        is_main = main?
        Thread.handle_interrupt(Object => :immediate) do
          let_go if is_main
          yield
        ensure
          @is_held = true if is_main
        end
      end

      def interrupt
        return unless @is_running
        return @is_pending = true if @is_held
        raise Interrupt, ""
      end

      private

      def main?
        Thread.current == Thread.main
      end

      # Return true if it was held before; on other threads there is nothing to hold.
      def hold
        return true unless main?
        was_held, @is_held = @is_held, true
        was_held
      end

      def let_go
        @is_held = false
        return unless @is_pending
        @is_pending = false
        raise Interrupt, ""
      end

      def end_trap
        Hooks.forget("INT")
        watch
      end
    end
  end
end
