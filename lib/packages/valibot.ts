/**
 * The package that checks data from outside, pinned. Files of the library name no package themselves: a program that
 * imports them by URL has no import map.
 */

export * from "npm:valibot@1.5.0";
