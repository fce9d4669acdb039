# frozen_string_literal: true

module ClocheAgent
  # `system` and backticks in a context: an interrupt of the cell ends the command, with all its children.
  module Commands
    extend Own

    PATIENCE_SECONDS, PAUSE = 1, 0.01

    class << self
      def install
        Kernel.define_method(:system) { |*args, exception: false, **options| Commands.run(args, exception, options) }
        Kernel.define_method(:`) { |command| Commands.read(command) }
        %i[system `].each { |name| Kernel.__send__(:private, name) }
      end

      # An interrupt must not come between the start of a process and the assignment of its id.
      def run(args, is_strict, options)
        status = Border.ours do
          pid = spawn(*args, pgroup: true, **options)
          Border.theirs { Process.wait(pid) }
          is_done = true
          $?
        rescue SystemCallError
          raise if is_strict || pid
        ensure
          end_group(pid) if pid && !is_done
        end
        return nil unless status
        raise "Command failed with #{status.to_s.sub(/\Apid [0-9]+ /, "")}: #{name_of(args)}" if is_strict && !status.success?
        status.success?
      end

      def read(command)
        Border.ours do
          output = IO.popen(command, pgroup: true)
          text = Border.theirs { output.read }
        ensure
          end_group(output.pid) if output && !text
          output&.close
        end
      end

      private

      def name_of(args)
        args.find { |arg| String === arg || Array === arg }.then { |name| Array === name ? name[0] : name }
      end

      # Background jobs of a shell ignore the first signal. The process is reaped last: until then
      # no other group can have its number.
      def end_group(pid)
        Process.kill(:INT, -pid)
        (PATIENCE_SECONDS / PAUSE).ceil.times { ended?(pid) ? break : sleep(PAUSE) }
        Process.kill(:KILL, -pid)
        Process.wait(pid)
      rescue SystemCallError
        nil
      end

      def ended?(pid)
        File.read("/proc/#{pid}/stat").match?(/\) Z [^)]*\z/)
      end
    end
  end
end
