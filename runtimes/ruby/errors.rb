# frozen_string_literal: true

module ClocheAgent
  # Exceptions as the caller sees them: class, message, and Ruby's own full message without frames of the agent.
  module Errors
    extend Own

    MESSAGE_MAX = 64 << 10
    STACK_MAX = 256 << 10
    FRAMES_MAX = 400
    CAUSES_MAX = 20
    LINE_MAX = 2000
    BACKTRACE = Exception.instance_method(:backtrace)
    CAUSE = Exception.instance_method(:cause)
    # Code runs in a lambda of the agent's: the user sees one level less.
    BLOCK = /in ([`'])block (?:\(([0-9]+) levels\) )?in <main>/.freeze
    PLACE = /\A(.*?):([0-9]+)(?=:|\z)(?::in )?/m.freeze

    class << self
      def describe(error, filename)
        {"type" => type_of(error), "message" => shorten(message_of(error), MESSAGE_MAX),
         "stack" => shorten(stack_of(error, filename), STACK_MAX)}
      end

      # With all causes, as Ruby prints them for a script.
      def stack_of(error, filename)
        causes_of(error).map { |cause| one(cause) { |frame| frame.start_with?("#{filename}:") ? outward(frame) : frame } }.join("")
      end

      # As the result of a cell; cells: the names of files that are cells.
      def in_cells(error, cells)
        lines = causes_of(error).flat_map { |cause| lines_in_cells(one(cause) { |frame| in_cell(frame, cells) }, cells) }
        message = lines_in_cells(message_of(error), cells).join("\n")
        {"name" => type_of(error), "message" => shorten(message, MESSAGE_MAX), "traceback" => lines.map { |line| shorten(line, LINE_MAX) }}
      end

      # The fallback for an exception whose own description throws.
      def bare(error)
        name = Agent.class_name(error)
        {"name" => name, "message" => "", "traceback" => [name]}
      end

      # Text of any encoding as UTF-8.
      def clean(text)
        raise TypeError, "#{Agent.class_name(text)} where text was expected" unless String === text
        text = String.new(text)
        return text.force_encoding(Encoding::UTF_8).scrub if [Encoding::BINARY, Encoding::UTF_8].include?(text.encoding)
        text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace)
      end

      private

      def causes_of(error)
        seen = {}.compare_by_identity
        while error && !seen.key?(error) && seen.size < CAUSES_MAX
          seen[error] = true
          error = CAUSE.bind_call(error)
        end
        seen.keys
      end

      def type_of(error)
        defined?(HostErrors) && HostErrors::HostError === error ? error.name : Agent.class_name(error)
      end

      def message_of(error)
        return "exit #{error.status}" if SystemExit === error && error.message == "exit"
        clean(error.message)
      rescue Exception => inner
        raise if Interrupt === inner && Border.running?
        "<message cannot be shown: it raised #{Agent.class_name(inner)}>"
      end

      def shorten(text, limit)
        return text if text.size <= limit
        half = limit / 2
        "#{text[0, half]}\n... #{text.size - 2 * half} characters left out ...\n#{text[-half, half]}"
      end

      # The block maps a frame to the text to show.
      def one(error, &spell)
        frames = frames_of(error, &spell)
        first, rest = message_of(error).split("\n", 2)
        head = "#{"#{frames[0]}: " if frames[0]}#{first ? "#{first} (#{type_of(error)})" : nameless(error)}\n"
        [head, rest && "#{rest.chomp}\n", *from(frames.drop(1))].join("")
      end

      def nameless(error)
        RuntimeError == CLASS_OF.bind_call(error) ? "unhandled exception" : type_of(error)
      end

      def from(frames)
        lines = frames.map { |frame| "\tfrom #{frame}\n" }
        return lines if lines.size <= FRAMES_MAX
        half = FRAMES_MAX / 2
        [*lines[0, half], "\t ... #{lines.size - 2 * half} levels...\n", *lines[-half, half]]
      end

      # Frames below the user's outermost frame are the agent's.
      def frames_of(error, &spell)
        frames = (BACKTRACE.bind_call(error) || []).map { |frame| clean(frame) }
        last = frames.rindex { |frame| !own?(frame) && !frame.start_with?("<internal:") } or return []
        frames[0..last].reject { |frame| own?(frame) }.map(&spell)
      end

      def in_cell(frame, cells)
        place = PLACE.match(frame)
        return frame unless place && cells.key?(place[1])
        rest = place.post_match
        "#{place[1]}, line #{place[2]}#{rest.empty? || rest.start_with?(":") ? rest : ", in #{rest}"}"
      end

      # The messages of syntax errors contain places.
      def lines_in_cells(text, cells)
        text.split("\n").map { |line| in_cell(line, cells) }
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
