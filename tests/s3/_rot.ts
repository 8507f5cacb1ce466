/**
 * Damage to a store in a bucket and to its workspace: the promises of tests/support/rot.ts.
 */

import { assert } from "@std/assert";
import { LONG, scaled, scaledTest } from "../support/long.ts";
import { bucketPatient, rot } from "../support/rot.ts";
import type { S3Place } from "../support/s3_server.ts";
import { withDirectory } from "../support/stores.ts";

/** Damages a store on a server. */
export function rotOnS3(name: string, place: () => S3Place): void {
  scaledTest(
    `${name}: damage to a store is found, and mended or reported as lost`,
    () =>
      withDirectory(async (directory) => {
        await using patient = await bucketPatient(place(), directory);
        const tally = await rot(patient, directory, { times: scaled({ short: 2, long: 60, longest: 400 }), seed: 3 });
        if (LONG) console.log(JSON.stringify(tally));
        assert(tally.found + tally.unread > 0, JSON.stringify(tally));
      }),
  );
}
