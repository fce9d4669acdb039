# frozen_string_literal: true

# The set-up of the prefix that Ruby's contexts are forked from: it loads the usual libraries and
# uses each once. Libraries that the image lacks are skipped. No name stays but the constant that
# makes the agent prepare cells (contexts.rb).
ClocheNotebook_ = true

lambda do
  %w[set json date time csv stringio strscan bigdecimal bigdecimal/util yaml erb ostruct securerandom digest digest/sha2 base64 matrix prime
     pathname fileutils tempfile tmpdir open3 shellwords timeout benchmark uri net/http open-uri pp prettyprint forwardable zlib erb
     io/console socket].each do |name|
    require name
  rescue LoadError
    next
  end
  JSON.generate(JSON.parse('{"a": [1, 2.5, null, "x"]}'))
  JSON.pretty_generate("a" => {"b" => 1})
  Set[1, 2].inspect
  [Time.at(0).utc.iso8601, Date.new(2000, 1, 1).to_s, DateTime.new(2000).iso8601]
  CSV.parse("a,b\n1,2\n", headers: true, converters: :numeric).map(&:to_h)
  StringIO.new("x\ny").each_line.to_a
  [BigDecimal("1.5").to_s, Rational(1, 3).inspect, Complex(1, 2).inspect]
  YAML.load({"a" => [1, "b"]}.to_yaml)
  PP.pp({"a" => [1] * 30}, +"", 40)
  Struct.new(:a, :b).new(1, 2).inspect
rescue NameError
  nil # a library that the image lacks
end.call
