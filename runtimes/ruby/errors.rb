# frozen_string_literal: true

module ClocheAgent
  # What an exception looks like to the caller: class, message, and Ruby's own full message without frames of the agent.
  module Errors
    extend Own

    MESSAGE_MAX = 64 << 10
    STACK_MAX = 256 << 10
    FRAMES_MAX = 400
    CAUSES_MAX = 20
    BACKTRACE = Exception.instance_method(:backtrace)
    CAUSE = Exception.instance_method(:cause)
    # Code runs in a lambda of ours: one level less is the user's view.
    BLOCK = /in ([`'])block (?:\(([0-9]+) levels\) )?in <main>/.freeze

    class << self
      def describe(error, filename)
        {"type" => type_of(error), "message" => shorten(message_of(error), MESSAGE_MAX),
         "stack" => shorten(stack_of(error, filename), STACK_MAX)}
      end

      # With all causes, as a script shows them.
      def stack_of(error, filename)
        text = +""
        seen = {}.compare_by_identity
        while error && !seen.key?(error) && seen.size < CAUSES_MAX
          seen[error] = true
          text << one(error, filename)
          error = CAUSE.bind_call(error)
        end
        text
      end

      private

      def type_of(error)
        defined?(HostErrors) && HostErrors::HostError === error ? error.name : Agent.class_name(error)
      end

      def message_of(error)
        return "exit #{error.status}" if SystemExit === error && error.message == "exit"
        clean(error.message)
      rescue Exception => inner
        "<message cannot be shown: it raised #{Agent.class_name(inner)}>"
      end

      def clean(text)
        raise TypeError unless String === text
        text = String.new(text)
        return text.force_encoding(Encoding::UTF_8).scrub if [Encoding::BINARY, Encoding::UTF_8].include?(text.encoding)
        text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)
      end

      def shorten(text, limit)
        return text if text.size <= limit
        half = limit / 2
        "#{text[0, half]}\n... #{text.size - 2 * half} characters left out ...\n#{text[-half, half]}"
      end

      def one(error, filename)
        frames = frames_of(error, filename)
        first, rest = message_of(error).split("\n", 2)
        head = "#{"#{frames[0]}: " if frames[0]}#{first || "unhandled exception"} (#{type_of(error)})\n"
        [head, rest && "#{rest.chomp}\n", *from(frames.drop(1))].join
      end

      def from(frames)
        lines = frames.map { |frame| "\tfrom #{frame}\n" }
        return lines if lines.size <= FRAMES_MAX
        half = FRAMES_MAX / 2
        [*lines[0, half], "\t ... #{lines.size - 2 * half} levels...\n", *lines[-half, half]]
      end

      # What is below the user's outermost frame is how the agent came there.
      def frames_of(error, filename)
        frames = (BACKTRACE.bind_call(error) || []).map { |frame| clean(frame) }
        last = frames.rindex { |frame| !own?(frame) && !frame.start_with?("<internal:") } or return []
        frames[0..last].reject { |frame| own?(frame) }.map { |frame| frame.start_with?("#{filename}:") ? outward(frame) : frame }
      end

      def own?(frame)
        frame.start_with?("#{FOLDER}/")
      end

      def outward(frame)
        frame.sub(BLOCK) do
          quote, levels = $1, $2.to_i
          "in #{quote}#{"block #{"(#{levels - 1} levels) " if levels > 2}in " if levels > 1}<main>"
        end
      end
    end
  end
end
