package verify

import (
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/internal/canon"
)

// Advice that several reasons share.
const (
	nextForged   = "Do not rely on this evidence. Ask its publisher for the original."
	nextCollect  = "Run the battery again and attest the new packet."
	nextUpgrade  = "Use the version of Wallproof that wrote it, or a later one."
	nextAskRight = "Check what you asked for."
	nextRoot     = "Give the deployment's current trusted root with `--trusted-root`. If it still fails, do not rely on this evidence."
)

// Reasons documents every reason code, in the order of the checks.
func Reasons() []Reason {
	var out []Reason
	for _, list := range [][]Reason{
		bundleReasons(), statementReasons(), packetReasons(), manifestReasons(), jsonReasons(), observationReasons(),
		claimReasons(), freshnessReasons(), rerunReasons(), documentReasons(), scorecardReasons(),
	} {
		out = append(out, list...)
	}
	return out
}

// ReasonFor returns the documentation of a code.
func ReasonFor(code Code) (Reason, bool) {
	for _, r := range Reasons() {
		if r.Code == code {
			return r, true
		}
	}
	return Reason{}, false
}

func bundleReasons() []Reason {
	return []Reason{
		{CodeNotAuthenticated, "any", NotChecked, "The check would have used bytes that an earlier check did not authenticate.", "See the line that failed."},
		{CodeBundleOK, CheckParse, Pass, "The attestation is a Sigstore bundle v0.3, strictly read.", ""},
		{CodeBundleMissing, CheckParse, Fail, "There is no attestation of the asked type.", "Sign the packet with `wallproof attest`."},
		{CodeBundleTooLarge, CheckParse, Fail, "The bundle is larger than the limit.", nextForged},
		{CodeBundleMalformed, CheckParse, Fail, "The bundle is not strict JSON, has unknown or duplicate members, or lacks required ones.", nextForged},
		{CodeBundleVersion, CheckParse, Fail, "The bundle is of another version than v0.3.", "Sign again with a tool that writes bundle v0.3."},
		{CodeBundleContent, CheckParse, Fail, "The bundle signs a bare message and not a DSSE envelope.", nextAskRight},
		{CodeSignatureCount, CheckParse, Fail, "The envelope has no signature or more than one.", nextForged},
		{CodeSignatureOK, CheckSignature, Pass, "The signature is over the exact bytes of the statement.", ""},
		{CodeSignatureInvalid, CheckSignature, Fail, "The signature is not by this signer over these bytes.", nextForged},
		{CodePayloadType, CheckSignature, Fail, "What is signed is not an in-toto statement.", nextAskRight},
		{CodeBundleRefused, CheckSignature, Fail, "Sigstore's own verification as a whole refused the bundle.", nextForged},
		{CodeTrustMissing, CheckSigner, Fail, "Neither a key nor an identity was given to trust, or both were.", "Give `--key`, or `--certificate-identity` and `--certificate-oidc-issuer`."},
		{CodeTrustAlgorithm, CheckSigner, Fail, "The key's algorithm is not supported.", "Use ECDSA P-256 or P-384, Ed25519, or RSA of 2048 bits or more."},
		{CodeTrustedRoot, CheckSigner, Fail, "The trusted root is malformed, missing, or not the one expected.", "Fetch the trusted root again from its publisher."},
		{CodeSignerKey, CheckSigner, Pass, "Signed by the trusted key.", ""},
		{CodeSignerIdentity, CheckSigner, Pass, "Signed by the trusted identity.", ""},
		{CodeSignerNotKey, CheckSigner, Fail, "Signed by a certificate, but a key was asked for.", "Ask for the identity instead."},
		{CodeSignerNotIdentity, CheckSigner, Fail, "Signed by a bare key, but an identity was asked for.", "Ask for the key instead."},
		{CodeIdentityMismatch, CheckSigner, Fail, "The certificate names another identity or issuer; patterns match only as a whole.", nextForged},
		{CodeIdentityPattern, CheckSigner, Fail, "The identity asked for is incomplete or its pattern is no regular expression.", nextAskRight},
		{CodeCertificateChain, CheckSigner, Fail, "The certificate leads to no authority of the trusted root.", nextRoot},
		{CodeCertificateSCT, CheckSigner, Fail, "The certificate is in no certificate log of the trusted root.", nextRoot},
		{CodeTimeTimestamp, CheckTime, Pass, "A timestamp authority vouches for the time of signing.", ""},
		{CodeTimeLog, CheckTime, Pass, "A log's signed promise vouches for the time of signing.", ""},
		{CodeTimeAsserted, CheckTime, NotChecked, "The time of signing is only what the signer says.", "Sign with a timestamp authority, or require one with `--require timestamp`."},
		{CodeTimeMissing, CheckTime, Fail, "A trusted time of signing is needed and there is none.", "Sign with a timestamp authority."},
		{CodeTimeTimestampBad, CheckTime, Fail, "A timestamp is not by an authority of the trusted root over this signature.", nextRoot},
		{CodeTimeCertificate, CheckTime, Fail, "Signed outside the certificate's validity.", nextForged},
		{CodeTransparencyOK, CheckTransparency, Pass, "A transparency log includes the signature.", ""},
		{CodeTransparencyNone, CheckTransparency, NotChecked, "Not in a transparency log that the trusted root knows.", "Require one with `--require transparency`."},
		{CodeTransparencyMissing, CheckTransparency, Fail, "A log entry is needed and there is none.", nextForged},
		{CodeTransparencyBad, CheckTransparency, Fail, "The log entry does not verify, or is of another signature.", nextRoot},
	}
}

func statementReasons() []Reason {
	return []Reason{
		{CodeStatementOK, CheckStatement, Pass, "An in-toto statement v1 with the trust-boundary predicate.", ""},
		{CodeStatementUnknown, CheckStatement, NotChecked, "The signed statement has members that this version does not know.", nextUpgrade},
		{CodeStatementMalformed, CheckStatement, Fail, "The signed bytes are not strict JSON: duplicate or case-folded members, invalid UTF-8, fractions, depth or size.", nextForged},
		{CodeStatementType, CheckStatement, Fail, "The signed bytes are not an in-toto statement v1.", nextAskRight},
		{CodePredicateType, CheckStatement, Fail, "The statement is validly signed, but of another predicate type.", nextAskRight},
		{CodePredicateMalformed, CheckStatement, Fail, "The predicate does not have the form of its type.", nextForged},
		{CodeSubjectCount, CheckStatement, Fail, "The statement does not have exactly one subject with one SHA-256 digest.", nextForged},
		{CodeSubjectOK, CheckSubject, Pass, "The subject is the image that was asked about.", ""},
		{CodeSubjectUnasked, CheckSubject, Pass, "No image was asked about; the line names the subject.", "Ask about one with `--image`."},
		{CodeSubjectMismatch, CheckSubject, Fail, "The subject is another image.", nextAskRight},
		{CodeSubjectIsIndex, CheckSubject, Fail, "An index was asked about; attested is one of its platform manifests.", "Ask about the platform manifest's digest."},
		{CodeSubjectMalformed, CheckSubject, Fail, "What was asked about is not a digest.", "Write sha256: and 64 lower-case hex digits."},
		{CodeSubjectImage, CheckSubject, Fail, "Subject and predicate are about different images.", nextForged},
	}
}

func packetReasons() []Reason {
	p := func(r packet.Reason, meaning string) Reason {
		return Reason{Code(r), CheckPacket, Fail, meaning, nextForged}
	}
	return []Reason{
		{CodePacketOK, CheckPacket, Pass, "Every file of the packet is the signed one, and no other is there.", ""},
		{CodePacketNotGiven, CheckPacket, NotChecked, "Only the bundle was given: what the packet holds is as attested. Fails where the packet is required.", "Verify the packet."},
		{CodePacketIncomplete, CheckManifest, Fail, "The packet has no manifest: its run did not end, or it is not a packet.", nextCollect},
		{CodePacketUnreadable, CheckPacket, Fail, "A file of the packet cannot be read.", "Check the files' permissions and the disk."},
		p(packet.ReasonUnlisted, "A file that the signed index does not have."),
		p(packet.ReasonMissing, "A file that the signed index has, or that every packet has, is not there."),
		p(packet.ReasonSize, "A file has another length than the signed one."),
		p(packet.ReasonDigest, "A file has other content than the signed one."),
		p(packet.ReasonName, "A file or folder that has no place in a packet."),
		p(packet.ReasonNotFile, "A link, device or the like; only regular files belong into a packet."),
		p(packet.ReasonLimit, "More or larger files than the limit."),
		p(packet.ReasonIndex, "The signed index is out of order, lists a file twice, or is malformed."),
		p(packet.ReasonDocument, "A file is not what its name says."),
		p(packet.ReasonArchive, "The archive is not in the packet's form."),
		p(packet.ReasonRead, "A file of the packet cannot be read."),
	}
}

func manifestReasons() []Reason {
	m := func(r manifest.Reason, meaning, next string) Reason {
		return Reason{Code(r), CheckManifest, Fail, meaning, next}
	}
	return []Reason{
		{CodeManifestOK, CheckManifest, Pass, "Form, chain, head, count and Merkle root are as signed.", ""},
		{CodeManifestRebuilt, CheckManifest, Fail, "A consistent chain, but not the signed one: it was computed anew.", nextForged},
		{CodeManifestCount, CheckManifest, Fail, "The signed count is another.", nextForged},
		{CodeManifestRoot, CheckManifest, Fail, "The signed Merkle root is another.", nextForged},
		{CodeManifestRun, CheckManifest, Fail, "Entry 0 says something of the run that cannot be: a digest, platform or name that is malformed.", nextForged},
		{CodeRunFact, CheckManifest, Fail, "A fact of the run that every run records was taken out or emptied: the claim would rest on less than it shows.", nextForged},
		{CodeManifestRowOK, CheckManifest, Pass, "The row is one of the signed manifest's lines.", ""},
		{CodeManifestRow, CheckManifest, Fail, "The row is not among the signed manifest's lines at this place.", nextForged},
		m(manifest.ReasonEmpty, "The manifest has no line.", nextCollect),
		m(manifest.ReasonIncomplete, "The manifest ends before its terminal entry: the run was cut short, or lines were taken off the end.", nextCollect),
		m(manifest.ReasonCutLine, "The last line has no line feed: the run was cut short.", nextCollect),
		m(manifest.ReasonSchema, "The manifest is of a format that this version does not know.", nextUpgrade),
		m(manifest.ReasonGenesis, "The first line does not begin a chain of this format.", nextForged),
		m(manifest.ReasonType, "An entry of an unknown type, or out of its place.", nextForged),
		m(manifest.ReasonMissing, "A line was taken out.", nextForged),
		m(manifest.ReasonReordered, "Lines stand in another order.", nextForged),
		m(manifest.ReasonDuplicate, "A line stands there twice.", nextForged),
		m(manifest.ReasonInserted, "A line was inserted.", nextForged),
		m(manifest.ReasonChain, "A line's prev is not the hash of the line before: one of the two was changed.", nextForged),
		m(manifest.ReasonAfterTerminal, "Lines stand behind the terminal entry.", nextForged),
		m(manifest.ReasonTerminalHead, "The terminal entry's head is not its own prev.", nextForged),
		m(manifest.ReasonTerminalCount, "The terminal entry's count is not the number of lines.", nextForged),
		m(manifest.ReasonTotals, "The terminal entry's totals are not what the entries add up to.", nextForged),
		m(manifest.ReasonTooLarge, "More or longer lines than the limit.", nextForged),
		m(manifest.ReasonRead, "The manifest cannot be read.", "Check the file's permissions and the disk."),
	}
}

func jsonReasons() []Reason {
	j := func(r canon.Reason, meaning string) Reason {
		return Reason{Code(r), CheckManifest, Fail, meaning, nextForged}
	}
	return []Reason{
		j(canon.ReasonSyntax, "A line is not JSON."),
		j(canon.ReasonDuplicate, "An object has a member twice."),
		j(canon.ReasonUTF8, "A line is not UTF-8."),
		j(canon.ReasonSurrogate, "A string holds half of a surrogate pair."),
		j(canon.ReasonNotCanonical, "A line is JSON, but not in canonical form (RFC 8785)."),
		j(canon.ReasonNotInteger, "A number is not written as an integer."),
		j(canon.ReasonNumberRange, "A number lies outside ±(2^53−1)."),
		j(canon.ReasonDepth, "A line is nested deeper than the limit."),
		j(canon.ReasonSize, "A line is longer than the limit, or has too many members."),
		j(canon.ReasonUnknownMember, "A member that the schema does not have."),
		j(canon.ReasonCaseFolded, "A member that differs from another only in case."),
		j(canon.ReasonMissingMember, "A required member is missing."),
		j(canon.ReasonType, "A value of another type than the schema's."),
		j(canon.ReasonUnmarshallable, "A value that has no canonical form."),
	}
}

func observationReasons() []Reason {
	return []Reason{
		{CodeObservationsOK, CheckObservations, Pass, "Entries and observation files of both phases agree; nonces, proofs and heartbeats were computed again.", ""},
		{CodeObservationsDiffer, CheckObservations, Fail, "An entry and the observation file differ.", nextForged},
		{CodeObservationsMalformed, CheckObservations, Fail, "An observation file is not canonical lines of the schema, in their order.", nextForged},
		{CodeObservationsStray, CheckObservations, Fail, "An observation belongs to no technique and no heartbeat of its phase.", nextForged},
		{CodeObservationsTime, CheckObservations, Fail, "An observation lies outside the time of the run.", nextForged},
		{CodeNonceKey, CheckObservations, Fail, "The terminal entry's nonce key is malformed.", nextForged},
		{CodeNonce, CheckObservations, Fail, "A nonce does not follow from run, technique, variant and phase.", nextForged},
		{CodeHeartbeat, CheckObservations, Fail, "A recorded heartbeat does not follow from the observations.", nextForged},
		{CodeHeartbeatOrder, CheckObservations, Fail, "A sandbox's heartbeats do not lie before, between and after its attempts.", nextForged},
		{CodeSandbox, CheckObservations, Fail, "An attempt is recorded in another sandbox than the catalogue has for it, or an observation of it comes from another.", nextForged},
		{CodeFilterLog, CheckObservations, Fail, "logs/filter.jsonl is not there, is malformed, or does not say of the packet filter what the entries say.", nextForged},
		{CodeProxyLog, CheckObservations, Fail, "logs/proxy.jsonl is malformed, or the entries have denials by the proxy that it did not log.", nextForged},
		{CodeRunLength, CheckObservations, Fail, "The run is said to have lasted longer than any run may.", nextForged},
		{CodeCatalogueOK, CheckCatalogue, Pass, "The techniques are those that this verifier knows.", ""},
		{CodeCatalogueUnknown, CheckCatalogue, Fail, "The packet was judged against a catalogue that this verifier does not know.", nextUpgrade},
		{CodeCatalogueTechnique, CheckCatalogue, Fail, "An entry is not a technique variant of the catalogue, or has another vector or severity.", nextForged},
		{CodeTechniqueMissing, CheckCatalogue, Fail, "A technique variant of the catalogue has no entry and entry 0 names no selection that leaves it out, or one has an entry that the selection leaves out.", nextForged},
		{CodeTechniqueOrder, CheckCatalogue, Fail, "Entries stand in another order than the catalogue's.", nextForged},
		{CodeOutcomesDouble, CheckCatalogue, Fail, "A technique variant is recorded twice.", nextForged},
		{CodeNotApplicable, CheckOutcomes, Fail, "What is said not to apply is not what the packet's policy and the facts of entry 0 give, or what ran could not.", nextForged},
		{CodeOutcomesOK, CheckOutcomes, Pass, "Every outcome follows from what both sides saw.", ""},
		{CodeOutcomesDiffer, CheckOutcomes, Fail, "A recorded outcome, reason or finding is not what the observations give.", nextForged},
	}
}

func claimReasons() []Reason {
	return []Reason{
		{CodeClaimsOK, CheckClaims, Pass, "Everything that the statement says of the packet follows from it.", ""},
		{CodeClaimsDiffer, CheckClaims, Fail, "A member of the statement does not follow from the packet.", nextForged},
		{CodePolicyForm, CheckClaims, Fail, "The policy in the packet, or the digest asked about, is malformed.", nextForged},
		{CodePolicyEvaluator, CheckClaims, Held, "The policy in the packet is written for a later version of the evaluator, so what it means is not known here.", nextUpgrade},
		{CodeEnforced, CheckEnforcement, Pass, "The policy was in force.", ""},
		{CodeEnforcedNothing, CheckEnforcement, Held, "The policy had nothing to enforce.", "Write a policy that enforces something."},
		{CodeEnforcedFailed, CheckEnforcement, Held, "The policy was not in force.", nextCollect},
		{CodeEnforcementState, CheckEnforcement, Fail, "An unknown state of enforcement.", nextUpgrade},
		{CodeEnforcementOther, CheckEnforcement, Fail, "The policy in the packet has something to enforce where the run says that it has nothing, or the reverse.", nextForged},
		{CodePolicyEdited, CheckEnforcement, Fail, "The policy's file was edited while the battery ran, so that the run cannot be attested.", nextCollect},
		{CodeWiring, CheckEnforcement, Fail, "A sandbox was wired with another policy or routing than entry 0 names, or with none that is known; an attack ran in a sandbox of which entry 0 says nothing; or the halts of the run are out of order.", nextForged},
		{CodeRedactionOK, CheckRedaction, Pass, "No secret is in the packet, and the search found what was planted.", ""},
		{CodeRedactionHits, CheckRedaction, Held, "Secrets were found in the packet.", "Do not publish it. " + nextCollect},
		{CodeRedactionUnproven, CheckRedaction, Held, "The search did not find what was planted, did not plant in every file and encoding, or looked for nothing, so it proves nothing.", nextCollect},
		{CodeRedactionCoverage, CheckRedaction, Fail, "A file of the packet was not searched as it is.", nextForged},
		{CodeRedactionForm, CheckRedaction, Fail, "The redaction proof is malformed.", nextForged},
		{CodeAdmissionOK, CheckAdmission, Pass, "The image was admitted under a supply-chain policy.", ""},
		{CodeAdmissionNone, CheckAdmission, NotChecked, "No admission policy was configured.", "Require one with `--require admission`."},
		{CodeAdmissionMissing, CheckAdmission, Held, "An admission policy is required and none was configured.", "Run the battery with an admission policy."},
		{CodeAdmissionState, CheckAdmission, Fail, "An unknown state of admission.", nextUpgrade},
		{CodeBatteryOK, CheckBattery, Pass, "No technique escaped and every vector is conclusive.", ""},
		{CodeCriticalEscape, CheckBattery, Held, "A critical technique escaped. The whole claim is held.", "Fix the boundary. " + nextCollect},
		{CodeEscapeUnclaimed, CheckBattery, Held, "A canary got out in the name of no attempt, at a place where the policy lets none arrive. Counts as a critical escape.", "Fix the boundary. " + nextCollect},
		{CodeEscape, CheckBattery, Held, "A technique escaped.", "Fix the boundary. " + nextCollect},
		{CodeVectorOpen, CheckBattery, Held, "A vector is inconclusive.", "See its reasons. " + nextCollect},
		{CodeVectorNotTested, CheckBattery, Held, "No technique of a vector was conclusive.", nextCollect},
		{CodeBatteryNotChecked, CheckBattery, NotChecked, "No escape as attested; outcomes were not computed again, since the packet was not given.", "Verify the packet."},
	}
}

func freshnessReasons() []Reason {
	return []Reason{
		{CodeCurrent, CheckExpiry, Pass, "Within its validity.", ""},
		{CodeExpired, CheckExpiry, Held, "Past the expiry that it states.", nextCollect},
		{CodeExpiredCap, CheckExpiry, Held, "Older than the verifier accepts, whatever it states.", nextCollect},
		{CodeNotYet, CheckExpiry, Held, "Did not exist yet at the time asked about.", "Check the clock, or `--at`."},
		{CodeTimesOrder, CheckExpiry, Fail, "Its times are out of order.", nextForged},
		{CodeTimeBadForm, CheckExpiry, Fail, "A time is malformed.", nextForged},
		{CodeLiveMalformed, CheckImage, Fail, "live.json is malformed.", "Write it again with `wallproof live`."},
		{CodeImageSame, CheckImage, Pass, "Deployed is the attested image.", ""},
		{CodeImageDrift, CheckImage, Held, "Deployed is another image.", nextCollect},
		{CodeImageUnknown, CheckImage, NotChecked, "What is deployed was not given.", "Give `--live`."},
		{CodeImageOutdated, CheckImage, NotChecked, "live.json gives what was attested, but is older than 7 days, or later than the time asked about: it does not tell what is there now.", "Write it again with `wallproof live`."},
		{CodePolicySame, CheckPolicy, Pass, "In force is the attested policy.", ""},
		{CodePolicyDrift, CheckPolicy, Held, "In force is another policy.", nextCollect},
		{CodePolicyUnknown, CheckPolicy, NotChecked, "The policy in force was not given.", "Give `--policy` or `--live`."},
		{CodePolicyOutdated, CheckPolicy, NotChecked, "live.json gives what was attested, but is older than 7 days, or later than the time asked about: it does not tell what is there now.", "Write it again with `wallproof live`."},
		{CodeFabricSame, CheckFabric, Pass, "The fabric in use is the attested one.", ""},
		{CodeFabricDrift, CheckFabric, Held, "The driver, runtime, kernel or isolation is another.", nextCollect},
		{CodeFabricUnknown, CheckFabric, NotChecked, "The fabric in use was not given.", "Give `--live`."},
		{CodeFabricOutdated, CheckFabric, NotChecked, "live.json gives what was attested, but is older than 7 days, or later than the time asked about: it does not tell what is there now.", "Write it again with `wallproof live`."},
		{CodeNotLatched, CheckLatch, Pass, "No drift of this attestation was seen before.", ""},
		{CodeLatched, CheckLatch, Held, "A drift was seen before. Going back does not revive the attestation.", nextCollect},
		{CodeLatchUnknown, CheckLatch, NotChecked, "No history was given.", ""},
	}
}

func rerunReasons() []Reason {
	return []Reason{
		{CodeRerunOK, CheckRerun, Pass, "Another signer than the attester verified it again.", ""},
		{CodeRerunSelf, CheckRerun, Pass, "The attester itself verified it again.", "Require another with `--require independent-verifier`."},
		{CodeRerunPartial, CheckRerun, Pass, "It was verified again, and all is confirmed but what the escapes that are not critical contradict.", ""},
		{CodeRerunLevel, CheckRerun, Fail, "The re-run says more than the evidence gives: that nothing escaped, or the reverse.", nextForged},
		{CodeRerunSkipped, CheckRerun, NotChecked, "This verification is the re-run.", ""},
		{CodeRerunUnasked, CheckRerun, NotChecked, "One row was asked about; a re-run is of the whole claim.", "Ask for it with `--require verifier` and `--verification`."},
		{CodeRerunMissing, CheckRerun, Held, "There is no signed verifier re-run.", "Make one with `wallproof verify --sign`."},
		{CodeRerunInvalid, CheckRerun, Fail, "The re-run is forged or malformed.", nextForged},
		{CodeRerunOther, CheckRerun, Fail, "The re-run is about another image, attestation or set of rules.", nextForged},
		{CodeRerunFailed, CheckRerun, Held, "The verifier says that its re-run failed.", "Find out why. " + nextCollect},
		{CodeRerunStale, CheckRerun, Fail, "The re-run is older than the attestation.", nextForged},
		{CodeRerunFuture, CheckRerun, Held, "The re-run lies in the future of the time asked about.", "Check the clock, or `--at`."},
		{CodeRerunLabel, CheckRerun, Fail, "The re-run is labelled independent and is not, or the reverse.", nextForged},
		{CodeRerunIndependent, CheckRerun, Held, "An independent re-run is required and the attester signed it itself.", "Let somebody else run `wallproof verify --sign`."},
	}
}

func documentReasons() []Reason {
	return []Reason{
		{CodeRedTeamOK, CheckRedTeam, Pass, "The red team itself signed a result without critical escapes.", ""},
		{CodeRedTeamAsserted, CheckRedTeam, Pass, "The operator asserts a red-team result without critical escapes. It does not satisfy `--require redteam`.", ""},
		{CodeRedTeamNone, CheckRedTeam, NotChecked, "No red-team result was provided.", "Require one with `--require redteam`."},
		{CodeRedTeamMissing, CheckRedTeam, Held, "A red-team result is required and was not provided.", "Attest with `--redteam`."},
		{CodeRedTeamTarget, CheckRedTeam, Held, "The red team attacked another image.", "Let it attack this one."},
		{CodeRedTeamEscapes, CheckRedTeam, Held, "The red team escaped critically.", "Fix the boundary."},
		{CodeRedTeamMalformed, CheckRedTeam, Fail, "The red-team result is malformed.", nextForged},
		{CodeRedTeamSignature, CheckRedTeam, Fail, "The red-team result is signed by none of the keys given.", nextForged},
		{CodeRedTeamUnverified, CheckRedTeam, NotChecked, "The red team's signature was not checked, so its result is only what the operator asserts.", "Give its key with `--redteam-key`."},
		{CodeRedTeamKey, CheckRedTeam, Held, "A red-team result is required and its signature was not checked.", "Give the red team's key with `--redteam-key`."},
		{CodeRedTeamOnlyAsserted, CheckRedTeam, Held, "An external red-team result is required, and this one is only what the operator asserts: no red team signed it.", "Attest with a result that the red team signed, and give its key with `--redteam-key`."},
		{CodeRedTeamTime, CheckRedTeam, Fail, "The red team's last run is malformed or after the attestation.", nextForged},
		{CodeThreatModelOK, CheckThreatModel, Pass, "The threat model is bound to the image.", ""},
		{CodeThreatModelNone, CheckThreatModel, NotChecked, "No threat model was provided.", "Require one with `--require threat-model`."},
		{CodeThreatModelMissing, CheckThreatModel, Held, "A threat model is required and was not provided.", "Attest with `--threat-model`."},
		{CodeThreatModelMalformed, CheckThreatModel, Fail, "The threat model is malformed.", nextForged},
	}
}

func scorecardReasons() []Reason {
	return []Reason{
		{CodeScorecardOK, CheckScorecard, Pass, "The scorecard is bound to this attestation by a signature.", ""},
		{CodeScorecardMatches, CheckScorecard, Pass, "The scorecard is of this image and policy and of the attested period.", "Bind it with `wallproof gate --binding-out`."},
		{CodeScorecardNone, CheckScorecard, NotChecked, "No scorecard was given.", ""},
		{CodeScorecardMissing, CheckScorecard, Held, "A scorecard is required and was not given.", "Give `--scorecard`."},
		{CodeScorecardMalformed, CheckScorecard, Fail, "The scorecard is malformed.", nextAskRight},
		{CodeScorecardImage, CheckScorecard, Held, "The scorecard was produced under another image.", "Produce it again under the attested image."},
		{CodeScorecardPolicy, CheckScorecard, Held, "The scorecard was produced under another policy.", "Produce it again under the attested policy."},
		{CodeScorecardTime, CheckScorecard, Held, "The scorecard was produced outside the attested period.", "Produce it again, or collect anew."},
		{CodeBindingMissing, CheckScorecard, Held, "A signed binding is required and was not given.", "Make one with `wallproof gate --binding-out`."},
		{CodeBindingInvalid, CheckScorecard, Fail, "The binding is forged or malformed.", nextForged},
		{CodeBindingTime, CheckScorecard, Held, "The binding was signed before the scorecard was produced, or in the future of the time asked about.", "Check the clock, or `--at`."},
		{CodeBindingOther, CheckScorecard, Fail, "The binding is of another scorecard, attestation, image or policy.", nextForged},
	}
}
