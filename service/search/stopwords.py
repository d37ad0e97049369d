"""English words that do not describe a service: function words and the words of requests."""

from __future__ import annotations

_FUNCTION_WORDS = """
a an the this that these those and or but nor so if then than as at by for from in into of off on
onto out over to up upon via with within without about above across after against along among around
before behind below beneath beside between beyond down during except inside near since through
throughout toward towards under until while i me my mine myself we us our ours ourselves you your
yours yourself yourselves he him his himself she her hers herself it its itself they them their
theirs themselves who whom whose which what when where why how am is are was were be been being do
does did doing done have has had having can could may might must shall should will would not no yes
ok okay also just only too very really quite some any each every either neither both all another
other others such same own there here again once more most much many few less least ever never
always often sometimes because due however therefore thus hence though although whether per etc ie
eg s t d ll m re ve don doesn didn isn aren wasn weren won wouldn couldn shouldn hasn haven hadn ain
im ive id dont doesnt didnt isnt cant one ones something anything everything nothing someone anyone
everyone somebody anybody
"""

_REQUEST_WORDS = """
please kindly thanks thank hello hi hey dear sir madam
need needs needed want wants wanted wish like love prefer hope
find finds finding look looks looking seek seeking
give gives giving show shows showing tell tells telling let lets
help helps helping assist assistance
provide provides providing provided know knowing
get gets getting got fetch retrieve obtain
suggest recommend able interested curious currently planning trying try tried
additionally furthermore moreover lastly finally first second third next
possible specific certain particular various several different
use uses used using make makes making go going
"""

STOP_WORDS = frozenset(_FUNCTION_WORDS.split()) | frozenset(_REQUEST_WORDS.split())
