# frozen_string_literal: true

module ClocheAgent
  # Displays in wire format: pictures as bytes, and large values kept in a file.
  module Displays
    extend Own

    FOLDER_OF_LARGE = "/tmp/.cloche-display"
    SHORT = 1000
    BINARY_KINDS = %w[image/png image/jpeg image/gif image/webp application/pdf].freeze
    ENDINGS = {"text/plain" => "txt", "text/html" => "html", "text/markdown" => "md", "text/latex" => "tex", "image/svg+xml" => "svg",
               "image/png" => "png", "image/jpeg" => "jpg", "image/gif" => "gif", "application/pdf" => "pdf",
               "application/javascript" => "js"}.freeze

    class << self
      # The params of `display`: [JSON text, attachments].
      def packed(data, metadata, is_result, id, is_update, store_bytes)
        data = data.to_h { |kind, value| [Errors.clean(kind.to_s), plain(kind, value)] }
        metadata = sendable(metadata, {})
        data = sendable(data, metadata)
        params = {"data" => data, "metadata" => metadata, "isResult" => is_result}
        params["displayId"] = id if id
        params["isUpdate"] = true if is_update
        encode_within(params, store_bytes) || begin
          params["data"], params["metadata"] = stored(data)
          encode_within(params, 0)
        end
      end

      private

      def plain(kind, value)
        return value unless String === value
        BINARY_KINDS.include?(kind) ? String.new(value, encoding: Encoding::BINARY) : Errors.clean(value)
      end

      # The metadata of an unsendable kind holds the reason; the other kinds are sent.
      def sendable(tree, metadata)
        tree.select do |kind, value|
          Encoder.new(0).encode(value) unless String === value
          true
        rescue Refused => refusal
          metadata[kind] = {"error" => refusal.message}
          false
        end
      end

      # nil if it is larger than the limit.
      def encode_within(params, limit)
        encoder = Encoder.new(limit)
        [encoder.encode(params), encoder.parts]
      rescue TooLarge
        nil
      end

      # [data, metadata]: the largest of the kinds is kept as a file, the others are dropped.
      def stored(data)
        return [{}, {"error" => "the metadata is too large"}] if data.empty?
        contents = data.to_h { |kind, value| [kind, content_of(value)] }
        kind, content = contents.inject { |one, other| one[1].bytesize >= other[1].bytesize ? one : other }
        text = String === data["text/plain"] ? data["text/plain"] : "<#{kind} of #{content.bytesize} bytes>"
        text = "#{text[0, SHORT]}... (#{text.size} characters in all)" if text.size > SHORT
        [{"text/plain" => text}, {"stored" => {"mime" => kind, "path" => write_file(kind, content), "bytes" => content.bytesize}}]
      rescue SystemCallError => error
        [{"text/plain" => text}, {"error" => "#{kind} of #{content.bytesize} bytes could not be kept in #{FOLDER_OF_LARGE}: #{error.message}"}]
      end

      def content_of(value)
        String === value ? value : Encoder.new(0).encode(value)
      end

      def write_file(kind, content)
        Dir.mkdir(FOLDER_OF_LARGE) unless Dir.exist?(FOLDER_OF_LARGE)
        ending = ENDINGS[kind] || (kind.include?("json") ? "json" : "bin")
        path = "#{FOLDER_OF_LARGE}/#{Random.urandom(8).unpack1("H*")}.#{ending}"
        File.open(path, File::WRONLY | File::CREAT | File::EXCL | File::BINARY) do |file|
          file.write(content)
        rescue SystemCallError
          File.unlink(path)
          raise
        end
        path
      end
    end
  end
end
