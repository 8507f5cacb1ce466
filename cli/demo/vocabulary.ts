/**
 * The words the shop's people, places, products and reviews are made of.
 *
 * @module
 */

const split = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Given names. */
export const GIVEN_NAMES = split(`
Ada Aisha Alejandro Alice Amara Amir Ana Anders Andrea Anna Aoife Arjun Astrid Aylin Beatriz Ben Bjorn Camille Carlos Carmen Chiara Chidi Chloe Daniel
David Deepa Diego Dmitri Elena Elias Elif Emeka Emil Emma Erik Esther Eva Farah Fatima Felix Finn Freya Gabriel Giulia Grace Greta Hana Hannah Hassan Hugo
Ibrahim Ines Ingrid Isabel Ivan Jakub James Jan Jana Javier Jin Joao Johan Jonas Julia Kai Karim Katarina Keiko Khalid Klara Kofi Lars Laura Lea Leila Leo
Liam Lin Lucas Lucia Luis Magnus Maja Malik Marco Maria Marta Mateo Mei Mia Miguel Mila Mohamed Nadia Naomi Nia Nikolai Noah Nora Olga Oliver Omar Oscar
Paolo Paula Pedro Petra Priya Rahul Ravi Rosa Sadia Sam Samira Sana Sara Sofia Sven Tara Tariq Thomas Tomas Uma Valeria Vera Viktor Wei Yara Yuki Zainab Zoe`);

/** Family names. */
export const FAMILY_NAMES = split(`
Abbas Adeyemi Ahmed Almeida Andersson Bakker Baumann Becker Bergman Bianchi Bose Brown Carvalho Castro Chen Clarke Cohen Costa Dahl Das Diaz Dubois Dupont
Eriksson Evans Fernandez Ferrari Fischer Fontaine Garcia Gomez Gonzalez Gruber Gupta Haddad Hansen Hartmann Hassan Hoffmann Horvat Huang Hussain Ito Ivanov
Jansen Jensen Johansson Jones Kaya Keller Khan Kim Kovac Kowalski Kruger Kumar Larsen Lee Lefevre Leroy Lewis Li Lindgren Lopez Maier Marino Martin Martinez
Mehta Mensah Mitchell Moreau Moretti Moreno Muller Murphy Nagy Nakamura Nguyen Nielsen Novak Nowak Okafor Okonkwo Olsen Ortiz Osei Owusu Park Patel Pereira
Petrov Popescu Ramirez Rao Reyes Ricci Rivera Rossi Roux Ruiz Sanchez Santos Sato Schmidt Schneider Sharma Silva Singh Smith Sousa Suzuki Svensson Takahashi
Tanaka Taylor Thomas Torres Vargas Vasquez Virtanen Vogel Wagner Walker Wang Weber Wilson Wright Yamamoto Yilmaz Young Zhang Zimmermann`);

/** Cities with their countries and the dialling codes. */
export const CITIES: readonly (readonly [city: string, country: string, dial: string])[] = [
  ["Berlin", "DE", "+49"],
  ["Hamburg", "DE", "+49"],
  ["Leipzig", "DE", "+49"],
  ["Paris", "FR", "+33"],
  ["Lyon", "FR", "+33"],
  ["Nantes", "FR", "+33"],
  ["London", "GB", "+44"],
  ["Leeds", "GB", "+44"],
  ["Bristol", "GB", "+44"],
  ["Madrid", "ES", "+34"],
  ["Valencia", "ES", "+34"],
  ["Bilbao", "ES", "+34"],
  ["Milano", "IT", "+39"],
  ["Torino", "IT", "+39"],
  ["Bologna", "IT", "+39"],
  ["Amsterdam", "NL", "+31"],
  ["Utrecht", "NL", "+31"],
  ["Gent", "BE", "+32"],
  ["Wien", "AT", "+43"],
  ["Graz", "AT", "+43"],
  ["Zagreb", "HR", "+385"],
  ["Porto", "PT", "+351"],
  ["Lisboa", "PT", "+351"],
  ["Warszawa", "PL", "+48"],
  ["Gdansk", "PL", "+48"],
  ["Stockholm", "SE", "+46"],
  ["Malmo", "SE", "+46"],
  ["Oslo", "NO", "+47"],
  ["Bergen", "NO", "+47"],
  ["Helsinki", "FI", "+358"],
  ["Tampere", "FI", "+358"],
  ["Dublin", "IE", "+353"],
];

/** First parts of street names. */
export const STREETS = split(`
Acacia Alder Almond Apple Ash Bakery Barley Beacon Birch Bridge Brook Canal Castle Cedar Cherry Church College Copper Corn Court Dock East Elm Farm Ferry
Field Forge Fountain Garden Gate Grange Green Grove Harbour Hazel Heath High Hill Holly Iron Ivy King Lake Laurel Lime Linden Maple Market Meadow Mill Mint
North Oak Olive Orchard Park Pear Pine Poplar Quarry Queen Rail Ridge River Rose Rowan School Ship Silver South Spring Station Stone Sun Temple Thistle Tower
Valley Vine Violet Walnut Water Well West Willow Windmill Wood`);

/** Second parts of street names. */
export const STREET_KINDS = split("Street Street Street Road Road Lane Avenue Way Close Square Row Hill Walk");

/** Product categories. */
export const CATEGORIES = split(`
kitchen garden tools lighting office outdoor bicycle camping music books toys pets bath bedding storage stationery craft coffee tea travel fitness
audio camera network cables furniture cleaning heating painting electrical`);

/** What products are made of or look like. */
export const QUALITIES = split(`
Alpine Amber Ash Bamboo Beech Black Blue Bold Brass Bright Bronze Calm Canvas Carbon Cast Ceramic Classic Clear Cobalt Compact Copper Cork Cotton Crisp Deep
Dry Dual Easy Elm Enamel Felt Fine Flax Flint Folding Forest Glass Graphite Gravel Green Grey Hazel Heavy Hemp Honey Iron Ivory Jute Leather Light Linen
Little Lunar Maple Marble Matte Micro Mini Modular Moss Navy Nordic Oak Ochre Olive Onyx Opal Pale Paper Pearl Pine Plain Plum Polar Prime Pure Quick Quiet
Rapid Raw Red Rough Round Royal Rust Sage Sand Satin Scarlet Silent Silver Simple Slate Slim Smart Smooth Soft Solar Solid Steel Stone Storm Sturdy Swift
Teal Terra Thin Timber Titan Twin Urban Velvet Vivid Walnut Warm Wide Wild Willow Wire Wool Zinc`);

/** What products are. */
export const THINGS = split(`
Adapter Apron Backpack Basket Bell Bench Blanket Board Boots Bottle Bowl Box Brush Bucket Cabinet Cable Camera Candle Carafe Case Chair Charger Clamp Clock
Cloth Compass Cooker Cup Curtain Cushion Desk Dish Drawer Drill Dripper Easel Fan Filter Flask Fork Frame Gloves Grater Grinder Hammer Hammock Handle Headset
Heater Helmet Hook Hose Jar Jug Kettle Keyboard Knife Ladder Ladle Lamp Lantern Lens Light Lock Mat Mattress Microphone Mirror Monitor Mug Notebook Opener
Oven Pan Pen Pillow Planter Plate Pot Pouch Press Pump Rack Radio Rake Razor Ring Rope Router Rug Saw Scale Scarf Scissors Screen Shelf Shovel Skillet Sofa
Speaker Spoon Stand Stapler Stool Stove Strap Switch Table Tape Tent Thermometer Toaster Torch Towel Tray Tripod Vase Vest Watch Wheel Whisk Wrench`);

/** The most usual words of a review, by falling frequency. */
const COMMON = split(`
the and it a is I to for of in my this with was that but on not very have as so are you they one would great from after than good all use had at just be well
will more no out really only when which up like can much bought time has we or what quality little does because too them an if even also now first after about
price there some bit product better works made get two still been easy got month over back before looks other day your than nice size week any delivery
arrived perfect light small other recommend again year he she does enough right used need every though found feels old colour house kitchen money long far
same buy order way fits best love thing down another came set most could hard big box then three off where look star new few using however exactly worth
quite did into work put happy part expected water since cheap ordered without strong heavy last couple left packaging hand seems never who want clean
always next gift plastic wood simple must second thin wife husband friend return second instructions instead sturdy room hours quickly handle both side
surprised broke problem short table sure almost thick together design metal top bottom smell warm cold noise battery screw lid corner edge`);

/** Stems that prefixes and endings turn into the long tail of rarer words. */
const STEMS = split(`
act add age aim arm back balance band base bend bind blend block board bolt bond brand break bright brush build bundle burn call care carry cast catch change
charge check clamp class clear climb close coat colour comfort cook cool count cover craft cross curve cut deal deliver depend design detail dip draw dress
drill drive drop dry dust earn edge express fade fall fasten feel fill filter finish fit fix flat flex float flow fold form frame fresh front garden gather
glow grain grease grind grip grow guard hand hang heat help hinge hold hook house improve join judge keep label lack land last lay lead leak lean learn lift
line link load lock look loose mark match material measure mend mix mount move name neat notice open pack paint pair part pass pay pick place plan plant play
point polish pour press print produce pull pump push quick reach read record repair rest ring rise roll rough round run rust scratch seal season serve set
shake shape sharp shelf shift shine show shrink skip slide slip smooth snap soak soft sort sound spill spin split spread stack stain stand start steam stick
store strap stretch strike style supply support sweep swing switch taste tear test thread tie tight tip touch tough trace trade train trap treat trim trust
turn twist value view walk warm wash watch water weigh wind wipe wire wonder work wrap write yield`);

const ENDINGS = ["", "s", "ed", "ing", "er", "able"];
const PREFIXES = ["", "re", "un"];

/** Words by rank: the common ones first, then the tail. */
export const VOCABULARY: readonly string[] = [
  ...COMMON,
  ...PREFIXES.flatMap((prefix) => ENDINGS.flatMap((ending) => STEMS.map((stem) => prefix + stem + ending))),
];
